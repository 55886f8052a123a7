"""The integers of one operation: stored weights and bias, shifts and multipliers, limits; and the proof that its sums fit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.graph.calls import Call, window_of
from toolchain.graph.numerics import Fraction, Numerics, average_fraction
from toolchain.graph.ranges import fitting_scale, position
from toolchain.graph.scales import product_position
from toolchain.operations.ending import quantize
from toolchain.operations.kind import UNIT
from toolchain.operations.stages import evaluate_table
from toolchain.spec.errors import UserError, fail

Floats = np.typing.NDArray[np.float32]
Reals = np.typing.NDArray[np.float64]
EXACT_BITS = 53
"""Whole numbers of a float64."""
SLOPE_BITS, SLOPE_ERROR = 15, 50
"""A leaky slope on machines that have none of their own: its bits behind the point at most; it may be off by one part in this many."""


@dataclass(frozen=True)
class Stored:
    """constants: weights, bias and what else follows the tensors as operands; attributes: of the integer call."""

    constants: tuple[np.typing.NDArray[Any], ...]
    attributes: Mapping[str, Any]


def limits(call: Call, scale: float, numerics: Numerics) -> dict[str, int]:
    """low and high of what is stored, with relu and clip in them, and the slope of a leaky one."""
    low, high = numerics.activation.low, numerics.activation.high
    if call.activation == "relu":
        low = max(low, 0)
    if call.activation == "clip":
        low = max(low, math.ceil(max(call.attributes["minimum"] / scale, -(2.0**20)) - 0.5))
        high = min(high, math.floor(min(call.attributes["maximum"] / scale, 2.0**20) + 0.5))
    if call.activation != "leaky":
        return {"low": low, "high": high}
    slope = slope_of(call.attributes["alpha"], numerics)
    return {"low": low if slope.numerator else max(low, 0), "high": high, "slope": slope.numerator, "slope_shift": slope.shift}


def slope_of(alpha: float, numerics: Numerics) -> Fraction:
    """The machine's slope, where none of its precision is nearer to the model's; else one near the model's own, which such a machine has to refuse.

    0 / 1 for slopes too small to be told from a relu.
    """
    if numerics.leaky is not None and round(alpha * 2**numerics.leaky.shift) == numerics.leaky.numerator:
        return numerics.leaky
    near = (Fraction(round(alpha * 2**shift), shift) for shift in range(SLOPE_BITS + 1))
    return next((f for f in near if f.numerator and abs(f.numerator / 2**f.shift - alpha) <= abs(alpha) / SLOPE_ERROR), Fraction(0, 0))


def weight_scale(weights: Floats, numerics: Numerics) -> float:
    """The scale at which no weight is clipped, one for the whole tensor."""
    largest = float(np.abs(weights).max(initial=0))
    return fitting_scale(largest, numerics.weight.high, numerics.form) if largest else 1.0


def stored_weights(weights: Floats, scale: float | Floats, numerics: Numerics) -> np.typing.NDArray[np.int8]:
    """Rounded to the nearest, ties to even: what a weight becomes is no matter of the machine."""
    return np.clip(
        np.rint(weights * (1 / np.float32(scale) if np.ndim(scale) == 0 else 1 / scale)), numerics.weight.low, numerics.weight.high
    ).astype(np.int8)


def product(call: Call, weights: Floats, bias: Floats, means: Sequence[float], scales: tuple[float, float, float], numerics: Numerics) -> Stored:
    """A convolution or dense layer, its weights rounded to the nearest. scales: of input, weights, output. means: of each input channel, for the
    correction of the bias; may be empty.

    Raises UserError E0919 where no integers exist that the numerics allow.
    """
    if numerics.form == "multiplier":
        steps = channel_steps(weights, scales[1], numerics)
        stored = stored_weights(weights, column_of(steps, weights), numerics)
        return stored_product(call, stored, steps, _corrected(call, weights, stored, column_of(steps, weights), bias, means), scales, numerics)
    given, weight, result = scales
    for _ in range(numerics.accumulator_bits):
        stored = stored_weights(weights, weight, numerics)
        corrected = _corrected(call, weights, stored, np.float32(weight), bias, means)
        try:
            return stored_product(call, stored, np.full(len(weights), weight), corrected, (given, weight, result), numerics)
        except TooFineError:
            weight *= 2
    raise _impossible(call, "no scale of its weights keeps the sum within the accumulator")


class TooFineError(Exception):
    """Weights of a smaller scale than the shifts or the accumulator allow; a larger one may do."""


def stored_product(
    call: Call, stored: np.typing.NDArray[np.int8], steps: Reals, bias: Reals, scales: tuple[float, float, float], numerics: Numerics
) -> Stored:
    """A convolution or dense layer of given integers. steps: the scale of each channel's weights, all alike where the machine only shifts.

    bias: float64, of each channel. Raises TooFineError, and UserError E0919 where no larger scale of the weights helps.
    """
    if numerics.form == "multiplier":
        return _multiplied(call, stored, steps, bias, scales, numerics)
    given, _, result = scales
    weight = float(steps[0])
    shift = position(weight) + position(given) - position(result)
    if shift < numerics.shift.low:
        raise _impossible(call, f"it needs a shift by {shift}, the machine has {numerics.shift.low} to {numerics.shift.high}")
    found = _stored_bias(bias, position(weight) + position(given), numerics) if shift <= numerics.shift.high else None
    if found is None or too_large(stored, found[0] << found[1], shift, numerics):
        raise TooFineError
    return Stored((stored, found[0].astype(np.int32)), {"bias_shift": found[1], "shift": shift} | _shape(call) | limits(call, result, numerics))


def channel_steps(weights: Floats, step: float, numerics: Numerics) -> Reals:
    """The scale of each channel's weights at which none is clipped; `step` for all where the machine has one for the tensor."""
    if not numerics.per_channel:
        return np.full(len(weights), step)
    rows = np.abs(weights.reshape(len(weights), -1)).max(1)
    return np.where(rows > 0, rows / np.float32(numerics.weight.high), np.float32(step)).astype(np.float64)


def column_of(steps: Reals, weights: Floats) -> Floats:
    """One value a row, broadcast against the weights."""
    return steps.astype(np.float32).reshape(-1, *(1,) * (weights.ndim - 1))


def _shape(call: Call) -> dict[str, Any]:
    return {key: value for key, value in call.attributes.items() if key not in ("alpha", "minimum", "maximum")}


def _stored_bias(bias: np.typing.NDArray[np.float64], total: int, numerics: Numerics) -> tuple[np.typing.NDArray[np.int64], int] | None:
    """The bias at the finest position that holds it, and its shift up to position `total` of the sum; None where the shift is too long."""
    largest = float(np.abs(bias).max(initial=0))
    finest = total - numerics.bias_shift.low
    place = min(finest, position(fitting_scale(largest, numerics.bias.high, "power_of_two"))) if largest else finest
    if total - place > numerics.bias_shift.high:
        return None
    return np.clip(np.rint(bias * 2.0**place), numerics.bias.low, numerics.bias.high).astype(np.int64), total - place


def too_large(stored: np.typing.NDArray[np.int8], bias: np.typing.NDArray[np.int64], shift: int, numerics: Numerics) -> bool:
    """Whether any order of adding up, with the rounding half, can leave the accumulator."""
    sums = np.abs(stored.reshape(len(stored), -1).astype(np.int16)).sum(1, dtype=np.int64) * numerics.activation.magnitude
    return int((sums + np.abs(bias)).max()) + (1 << max(shift - 1, 0)) > numerics.accumulator.high


def _corrected(
    call: Call, weights: Floats, stored: np.typing.NDArray[np.int8], scale: Any, bias: Floats, means: Sequence[float]
) -> np.typing.NDArray[np.float64]:
    """The bias less the mean error that rounding the weights brings, by the mean of every input channel."""
    if not len(means):
        return bias.astype(np.float64)
    error = (stored * scale - weights).reshape(*weights.shape[:2], -1).sum(2, dtype=np.float64)
    group = int(call.attributes.get("group", 1))
    seen = np.asarray(means).reshape(group, -1)
    if seen.shape[1] != weights.shape[1]:
        return bias.astype(np.float64)
    return bias - np.einsum("gok,gk->go", error.reshape(group, -1, weights.shape[1]), seen).reshape(-1)


def _multiplied(
    call: Call, stored: np.typing.NDArray[np.int8], steps: Reals, bias: Reals, scales: tuple[float, float, float], numerics: Numerics
) -> Stored:
    given, _, result = scales
    rows = steps.astype(np.float32).astype(np.float64)
    whole = np.clip(np.rint(bias / (rows * given)), numerics.bias.low, numerics.bias.high).astype(np.int64)
    fractions = [fraction_of(call, float(step) * given / result, numerics) for step in rows]
    if too_large(stored, whole, 0, numerics):
        raise _impossible(call, f"the sum can leave the accumulator of {numerics.accumulator_bits} bits")
    if numerics.accumulator_bits + numerics.multiplier_bits > EXACT_BITS:
        bits = f"an accumulator of {numerics.accumulator_bits} bits times a multiplier of {numerics.multiplier_bits}"
        raise _impossible(call, f"{bits} cannot be checked exactly")
    factors, divisors = np.array([f.numerator for f in fractions], np.float64), np.array([2.0**f.shift for f in fractions])
    attributes = {"bias_shift": 0} | _shape(call) | limits(call, result, numerics)
    return Stored((stored, whole.astype(np.int32), factors, divisors), attributes)


def fraction_of(call: Call, factor: float, numerics: Numerics) -> Fraction:
    """factor as m / 2**s with as many bits as the machine has. Raises UserError E0919."""
    shift = min(numerics.multiplier_bits - math.frexp(factor)[1], numerics.shift.high)
    numerator = round(factor * 2.0**shift)
    if numerator == 2**numerics.multiplier_bits:
        numerator, shift = numerator // 2, shift - 1
    if shift < numerics.shift.low or numerator == 0:
        raise _impossible(call, f"no multiplier of {numerics.multiplier_bits} bits stands for {factor:g}")
    return Fraction(numerator, shift)


def total(call: Call, given: Sequence[float], result: float, numerics: Numerics) -> Stored:
    """A sum, an average or a product of computed tensors. given: scales of the inputs. Raises UserError E0919."""
    match call.operation.form:
        case "average":
            attributes, most = _average(call, given[0], result, numerics)
        case "aligned":
            attributes, most = _aligned(call, given, result, numerics)
        case _:
            attributes, most = _computed(call, given, result, numerics)
    if not numerics.shift.holds(attributes["shift"]):
        raise _impossible(call, f"it needs a shift by {attributes['shift']}, the machine has {numerics.shift.low} to {numerics.shift.high}")
    if most * numerics.activation.magnitude + (1 << max(attributes["shift"] - 1, 0)) > numerics.accumulator.high:
        raise _impossible(call, f"the sum can leave the accumulator of {numerics.accumulator_bits} bits")
    return Stored((), attributes | _shape(call) | limits(call, result, numerics))


def _average(call: Call, given: float, result: float, numerics: Numerics) -> tuple[dict[str, int], int]:
    height, width = window_of(call)
    if numerics.form == "multiplier":
        found = fraction_of(call, given / (result * height * width), numerics)
    else:
        average = average_fraction(numerics.average, height, width)
        found = Fraction(average.numerator, average.shift + position(given) - position(result))
    return {"multiply": found.numerator, "shift": found.shift}, height * width * found.numerator


def _aligned(call: Call, given: Sequence[float], result: float, numerics: Numerics) -> tuple[dict[str, int], int]:
    """The multipliers of the summands, whose scales meet in the finest."""
    if numerics.form == "power_of_two":
        places = [position(scale) for scale in given]
        factors, shift = [1 << (max(places) - place) for place in places], max(places) - position(result)
    else:
        larger = fraction_of(call, max(given) / result, numerics)
        factors, shift = [round(scale / result * 2.0**larger.shift) for scale in given], larger.shift
    return dict(zip(call.operation.multipliers, factors, strict=True)) | {"shift": shift}, sum(factors)


def _computed(call: Call, given: Sequence[float], result: float, numerics: Numerics) -> tuple[dict[str, int], int]:
    """A product of computed tensors; only the sums of one element need no shape."""
    if numerics.form != "power_of_two":
        raise _impossible(call, "a product of computed tensors has no multiplier of its own")
    factors, terms = call.operation.factors, math.prod(call.reduced)
    most = terms * factors.size * numerics.activation.magnitude ** (factors.total - 1)
    return {"shift": product_position(call, list(map(position, given))) - position(result)}, most


def channel_factors(call: Call, weights: Floats, scales: tuple[float, float, float], numerics: Numerics) -> Stored:
    """An operation with weights and no bias, such as PRelu. scales: of input, weights, output. Raises UserError E0919."""
    given, weight, result = (position(scale) for scale in scales)
    if numerics.form != "power_of_two" or weight < 0:
        raise _impossible(call, "its factors have no scale that is a power of two below 1")
    stored, shift = stored_weights(weights, 2.0**-weight, numerics), weight + given - result
    if not numerics.shift.holds(shift):
        raise _impossible(call, f"it needs a shift by {shift}, the machine has {numerics.shift.low} to {numerics.shift.high}")
    largest = max(int(np.abs(stored.astype(np.int16)).max(initial=0)), 1 << weight) * numerics.activation.magnitude
    if largest + (1 << max(shift - 1, 0)) > numerics.accumulator.high:
        raise _impossible(call, f"the product can leave the accumulator of {numerics.accumulator_bits} bits")
    unit = {UNIT: 1 << weight} if call.operation.unit else {}
    return Stored((stored,), unit | {"shift": shift} | _shape(call) | limits(call, scales[2], numerics))


def table(call: Call, given: float, result: float, numerics: Numerics) -> Stored:
    """A function of one element as 256 stored values, for every stored integer from -128 on. given, result: scales."""
    steps = np.arange(-128, 128) * np.float64(given)
    values, held = evaluate_table(call.operation, steps).astype(np.float32), numerics.activation
    stored = quantize(values, result, held.low, held.high, numerics.rounding)
    return Stored((stored,), {})


def _impossible(call: Call, reason: str) -> UserError:
    return fail("E0919", f"node '{call.name}' ({call.kind}) cannot be quantised: {reason}")
