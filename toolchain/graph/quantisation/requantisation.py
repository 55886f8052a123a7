"""The integers of one operation: stored weights and bias, shifts and multipliers, limits; and the proof that its sums fit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from toolchain.graph.integers.calls import Call, window_of
from toolchain.graph.integers.endings import average_fraction
from toolchain.graph.quantisation.ranges import fitting_positions, fitting_scale, position, positions
from toolchain.graph.quantisation.scales import product_position
from toolchain.graph.rewrite import row_blocks
from toolchain.operations.ending import first_stored, quantize
from toolchain.operations.kind import UNIT
from toolchain.operations.numbers import Attributes
from toolchain.operations.whole import evaluate_table
from toolchain.spec.arrays import Array, Floats, Reals
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Fraction, Numerics
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why, refuse

Scales = tuple[float, float, float]
"""Zero points of input, weights and output."""
EXACT_BITS = 63
"""Magnitudes of an int64."""
LONG_ROW = 1 << 23
"""So many int8 may pass 32 bits in a sum; numpy adds in 32 bits several times as fast as in 64."""
TRIES = 4
"""How often the scale of weights that are too large for a sum grows until it has doubled, where it need not be a power of two."""
LONGEST = 62
"""The longest shift that the integer functions have."""
NO_ZEROS: Mapping[str, int] = MappingProxyType({})
SLOPE_BITS, SLOPE_ERROR = 15, 50
"""A leaky slope on machines that have none of their own: its bits behind the point at most; it may be off by one part in this many."""


@dataclass(frozen=True)
class Stored:
    """constants: weights, bias and all other operands behind the tensors; attributes: of the integer call."""

    constants: tuple[Array, ...]
    attributes: Attributes


def limits(call: Call, scale: float, numerics: Numerics, zeros: Mapping[str, int] = NO_ZEROS) -> dict[str, int]:
    """low and high of the stored result, with relu and clip in them, the slope of a leaky one, and the zeros, attributes of the call."""
    low, high, zero = numerics.activation.low, numerics.activation.high, zeros.get("zero_y", 0)
    if call.activation == "relu":
        low = max(low, zero)
    if call.activation == "clip":
        low = max(low, zero + math.ceil(max(call.attributes["minimum"] / scale, -(2.0**20)) - 0.5))
        high = min(high, zero + math.floor(min(call.attributes["maximum"] / scale, 2.0**20) + 0.5))
    if call.activation != "leaky":
        return {"low": low, "high": high, **zeros}
    slope = slope_of(call.attributes["alpha"], numerics)
    return {"low": low if slope.numerator else max(low, zero), "high": high, "slope": slope.numerator, "slope_shift": slope.shift, **zeros}


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
    largest = float(max(weights.max(initial=0), -weights.min(initial=0)))
    return fitting_scale(largest, numerics.weight.high, numerics.form) if largest else 1.0


def stored_weights(weights: Floats, scale: float | np.float32 | Floats, numerics: Numerics) -> np.typing.NDArray[np.int8]:
    """Rounded to the nearest, ties to even, whatever the machine's rounding: weights are rounded when the model is built."""
    factors: Any = 1 / np.float32(scale) if np.ndim(scale) == 0 else 1 / scale
    found = np.empty(weights.shape, np.int8)
    for part in row_blocks(weights):
        scaled: Floats = weights[part] * (factors if np.ndim(factors) == 0 else factors[part])
        np.rint(scaled, out=scaled)
        found[part] = np.clip(scaled, numerics.weight.low, numerics.weight.high, out=scaled)
    return found


def product(
    call: Call, weights: Floats, bias: Floats, means: Sequence[float], scales: Scales, numerics: Numerics, zeros: Mapping[str, int] = NO_ZEROS
) -> Stored:
    """A convolution or dense layer, its weights rounded to the nearest. means: of each input channel, for the correction of the bias; may be empty.

    Raises UserError E0919 where no integers exist that the numerics allow.
    """
    shifts = numerics.form == "power_of_two"
    steps = channel_steps(weights, scales[1], numerics)
    for _ in range(numerics.accumulator_bits * (1 if shifts else TRIES)):
        step = column_of(steps, weights) if numerics.per_channel or not shifts else np.float32(steps[0])
        stored = stored_weights(weights, step, numerics)
        try:
            return stored_product(call, stored, steps, _corrected(call, weights, stored, step, bias, means), scales, numerics, zeros)
        except TooFineError as error:
            rows = error.rows if numerics.per_channel else np.ones(len(steps), bool)
            steps = np.where(rows, steps * (2.0 if shifts else 2.0 ** (1 / TRIES)), steps)
    raise impossible(call, Why.NO_WEIGHT_SCALE())


class TooFineError(Exception):
    """Weights of a smaller scale than the shifts or the accumulator allow; a larger one may do. rows: of the weights."""

    def __init__(self, rows: np.typing.NDArray[np.bool_]) -> None:
        super().__init__()
        self.rows = rows


def stored_product(
    call: Call,
    stored: np.typing.NDArray[np.int8],
    steps: Reals,
    bias: Reals,
    scales: Scales,
    numerics: Numerics,
    zeros: Mapping[str, int] = NO_ZEROS,
) -> Stored:
    """A convolution or dense layer of given integers. steps: the scale of each channel's weights, all alike where the machine has one for a tensor.

    bias: float64, of each channel. Raises TooFineError, and UserError E0919 where no larger scale of the weights helps.
    """
    if numerics.form != "power_of_two":
        return _multiplied(call, stored, steps, bias, scales, numerics, zeros)
    given, _, result = scales
    totals = positions(steps) + position(given)
    shifts = totals - position(result)
    least = int(shifts.min())
    if least < numerics.shift.low:
        raise impossible(call, Why.SHIFT(needed=least, low=numerics.shift.low, high=numerics.shift.high))
    if (too_fine := shifts > min(numerics.shift.high, least + numerics.shift_span)).any():
        raise TooFineError(too_fine)
    whole, bias_shift, unfit = _stored_bias(bias, totals, numerics)
    if (too_fine := unfit | too_large(stored, whole << bias_shift, shifts, numerics, _first_zero(call, zeros))).any():
        raise TooFineError(too_fine)
    attributes = {"bias_shift": bias_shift} | shape_of(call) | limits(call, result, numerics, zeros)
    constants = stored, whole.astype(np.int32)
    if numerics.per_channel:
        return Stored((*constants, shifts.astype(np.int32)), attributes)
    return Stored(constants, attributes | {"shift": least})


def _first_zero(call: Call, zeros: Mapping[str, int]) -> int:
    """The stored integer that stands for zero in the input that the weights multiply."""
    return zeros.get(f"zero_{call.operation.data[0]}", 0)


def channel_steps(weights: Floats, step: float, numerics: Numerics) -> Reals:
    """The scale of each channel's weights at which none is clipped; `step` for all where the machine has one for the tensor."""
    if not numerics.per_channel:
        return np.full(len(weights), step)
    rows = np.abs(weights.reshape(len(weights), -1)).max(1)
    if numerics.form == "power_of_two":
        fitting = 2.0 ** -fitting_positions(rows, numerics.weight.high)
        return within_span(np.where(rows > 0, fitting, step), numerics)
    return np.where(rows > 0, rows / np.float32(numerics.weight.high), np.float32(step)).astype(np.float64)


def within_span(steps: Reals, numerics: Numerics) -> Reals:
    """Scales of the channels of one operation, those coarser that are too fine beside the largest."""
    return np.maximum(steps, steps.max() * 2.0**-numerics.shift_span)


def column_of(steps: Reals, weights: Floats) -> Floats:
    """One value a row, broadcast against the weights."""
    return steps.astype(np.float32).reshape(-1, *(1,) * (weights.ndim - 1))


def shape_of(call: Call) -> dict[str, object]:
    """The attributes of a call but for those of an activation."""
    return {key: value for key, value in call.attributes.items() if key not in ("alpha", "minimum", "maximum")}


def _stored_bias(
    bias: Reals, totals: np.typing.NDArray[np.int64], numerics: Numerics
) -> tuple[np.typing.NDArray[np.int64], int, np.typing.NDArray[np.bool_]]:
    """The bias at the finest positions that hold it, its shift up to those of the sums, and which channels need a longer shift than there is."""
    low, high = numerics.bias_shift.low, numerics.bias_shift.high
    needed = np.where(bias == 0, low, np.maximum(totals - fitting_positions(bias, numerics.bias.high), low))
    shift = min(int(needed.max(initial=low)), high)
    whole = np.clip(np.rint(bias * 2.0 ** (totals - shift)), numerics.bias.low, numerics.bias.high)
    return whole.astype(np.int64), shift, needed > high


def too_large(
    stored: np.typing.NDArray[np.int8], bias: np.typing.NDArray[np.int64], shift: Array | np.int64 | int, numerics: Numerics, zero: int = 0
) -> np.typing.NDArray[np.bool_]:
    """For each row of the weights, whether any order of adding up, with the rounding half of a shift, can leave the accumulator.

    shift: a whole number, or one for each row. zero: the stored integer that stands for zero in the input; the bias may hold its
    share of the sum.
    """
    rows = stored.reshape(len(stored), -1)
    wide = np.int32 if rows.shape[1] < LONG_ROW else np.int64
    sums, plain = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for part in row_blocks(rows):
        some = rows[part].astype(np.int16)
        plain[part] = some.sum(1, dtype=wide) if zero else 0
        sums[part] = np.abs(some, out=some).sum(1, dtype=wide)
    sums, folded = sums * numerics.magnitude, bias - zero * plain
    return sums + np.maximum(np.abs(bias), np.abs(folded)) + (np.int64(1) << np.maximum(shift - 1, 0)) > numerics.accumulator.high


def _corrected(
    call: Call, weights: Floats, stored: np.typing.NDArray[np.int8], scale: Any, bias: Floats, means: Sequence[float]
) -> np.typing.NDArray[np.float64]:
    """The bias less the mean error that rounding the weights brings, by the mean of every input channel."""
    if not len(means):
        return bias.astype(np.float64)
    group = int(call.attributes.get("group", 1))
    seen = np.asarray(means, np.float64).reshape(group, -1)
    if seen.shape[1] != weights.shape[1]:
        return bias.astype(np.float64)
    groups, found = np.arange(len(weights)) // (len(weights) // group), np.empty(len(weights))
    for part in row_blocks(weights):
        error = stored[part] * (scale if np.ndim(scale) == 0 else scale[part])
        error = np.subtract(error, weights[part], out=error).reshape(*error.shape[:2], -1)
        sums = error.sum(2, dtype=np.float64) if error.shape[2] > 1 else error[..., 0].astype(np.float64)
        found[part] = np.einsum("ok,ok->o", sums, seen[groups[part]])
    return bias - found


def _multiplied(
    call: Call, stored: np.typing.NDArray[np.int8], steps: Reals, bias: Reals, scales: Scales, numerics: Numerics, zeros: Mapping[str, int]
) -> Stored:
    """Requantisation of a machine that multiplies."""
    given, _, result = scales
    rows = steps.astype(np.float32).astype(np.float64)
    exact = np.rint(bias / (rows * given))
    whole = np.clip(exact, numerics.bias.low, numerics.bias.high).astype(np.int64)
    wrong = (exact != whole) | too_large(stored, whole, 0, numerics, _first_zero(call, zeros))
    if wrong.any():
        raise TooFineError(wrong)
    attributes = {"bias_shift": 0} | shape_of(call) | limits(call, result, numerics, zeros)
    return by_factors(call, (stored, whole.astype(np.int32)), [float(step) * given / result for step in rows], attributes, numerics)


def by_factors(call: Call, constants: tuple[Array, ...], factors: Sequence[float], attributes: Attributes, numerics: Numerics) -> Stored:
    """Constants and attributes of a call, with those of its requantisation on a machine that multiplies: by a factor for each channel, or the first
    for all. Raises UserError E0919."""
    found = [scaling(call, factor, numerics) for factor in (factors if numerics.per_channel else factors[:1])]
    if not numerics.per_channel:
        return Stored(constants, {**attributes, **found[0]})
    types = {"multiplier": np.int32, "shift": np.int32, "scale": np.float32}
    channels = [np.array([each[name] for each in found], types[name]) for name in found[0]]
    return Stored((*constants, *channels), attributes)


def scaling(call: Call, factor: float, numerics: Numerics) -> dict[str, int | float]:
    """The attributes of a requantisation by a factor, on a machine that multiplies. Raises UserError E0919."""
    if numerics.form == "float32":
        return {"scale": float(np.float32(factor))}
    found = fraction_of(call, factor, numerics)
    slope = (numerics.leaky.numerator.bit_length() if numerics.leaky else SLOPE_BITS) if call.activation == "leaky" else 0
    rounded = found.shift if numerics.order == "shift_first" else 0
    if numerics.accumulator_bits + max(numerics.multiplier_bits, numerics.multiplier_bits - rounded + slope) > EXACT_BITS:
        bits = f"a sum of {numerics.accumulator_bits} bits times a multiplier of {numerics.multiplier_bits}"
        raise impossible(call, Why.EXACT_BITS(product=f"{bits}{f' and a slope of {slope}' if slope else ''}", bits=EXACT_BITS))
    return {"multiplier": found.numerator, "shift": found.shift}


def fraction_of(call: Call, factor: float, numerics: Numerics, bits: int = 0) -> Fraction:
    """factor as m / 2**s with as many bits as the machine's multipliers have, or fewer. Raises UserError E0919."""
    bits, longest = bits or numerics.multiplier_bits, LONGEST - (SLOPE_BITS if call.activation == "leaky" else 0)
    shift = min(bits - math.frexp(factor)[1], numerics.shift.high, longest)
    numerator = round(factor * 2.0**shift)
    if numerator == 2**bits:
        numerator, shift = numerator // 2, shift - 1
    if shift < numerics.shift.low or numerator == 0:
        raise impossible(call, Why.NO_MULTIPLIER(bits=bits, factor=float(factor)))
    return Fraction(numerator, shift)


def total(call: Call, given: Sequence[float], result: float, numerics: Numerics, zeros: Mapping[str, int] = NO_ZEROS) -> Stored:
    """A sum, an average or a product of computed tensors. given: scales of the inputs. Raises UserError E0919."""
    match call.operation.form:
        case "average":
            attributes, most = _average(call, given[0], result, numerics)
        case "aligned":
            attributes, most = _aligned(call, given, result, numerics)
        case _:
            attributes, most = _computed(call, given, result, numerics)
    shift = int(attributes.get("shift", 0))
    if not numerics.shift.holds(shift) and numerics.form != "float32":
        raise impossible(call, Why.SHIFT(needed=shift, low=numerics.shift.low, high=numerics.shift.high))
    half = 1 << max(shift - 1, 0) if attributes.get("multiplier", 1) == 1 else 0
    if most * numerics.magnitude + half > numerics.accumulator.high:
        raise impossible(call, Why.SUM_BITS(bits=numerics.accumulator_bits))
    return Stored((), attributes | shape_of(call) | limits(call, result, numerics, zeros))


def _average(call: Call, given: float, result: float, numerics: Numerics) -> tuple[dict[str, int | float], int]:
    height, width = window_of(call)
    if numerics.form != "power_of_two":
        return {"multiply": 1} | scaling(call, given / (result * height * width), numerics), height * width
    average = average_fraction(numerics.average, height, width)
    return {"multiply": average.numerator, "shift": average.shift + position(given) - position(result)}, height * width * average.numerator


def _aligned(call: Call, given: Sequence[float], result: float, numerics: Numerics) -> tuple[dict[str, int | float], int]:
    """The multipliers of the summands, whose scales meet in the finest."""
    if numerics.form == "power_of_two":
        places = [position(scale) for scale in given]
        factors = [1 << (max(places) - place) for place in places]
        ends: dict[str, int | float] = {"shift": max(places) - position(result)}
    else:
        room = numerics.accumulator_bits - 2 - (len(given) * numerics.magnitude).bit_length()
        larger = fraction_of(call, max(given) / result, numerics, min(room, numerics.multiplier_bits))
        factors = [round(scale / result * 2.0**larger.shift) for scale in given]
        ends = {"scale": 2.0**-larger.shift} if numerics.form == "float32" else {"multiplier": 1, "shift": larger.shift}
    return dict(zip(call.operation.multipliers, factors, strict=True)) | ends, sum(factors)


def _computed(call: Call, given: Sequence[float], result: float, numerics: Numerics) -> tuple[dict[str, int | float], int]:
    """A product of computed tensors; only the sums of one element need no shape."""
    factors, terms = call.operation.factors, math.prod(call.reduced)
    most = terms * factors.size * numerics.magnitude ** (factors.total - 1)
    if numerics.form != "power_of_two":
        scale = math.prod(step ** factors.counts.get(name, 0) for name, step in zip(call.operation.data, given, strict=True))
        return scaling(call, scale / result, numerics), most
    return {"shift": product_position(call, list(map(position, given))) - position(result)}, most


def channel_factors(call: Call, weights: Floats, scales: Scales, numerics: Numerics, zeros: Mapping[str, int] = NO_ZEROS) -> Stored:
    """An operation with weights and no bias, such as PRelu, whose weights' scale is a power of two on every machine. Raises UserError E0919."""
    largest = float(np.abs(weights).max(initial=0))
    weight = position(fitting_scale(largest, numerics.weight.high, "power_of_two") if largest else 1.0)
    if weight < 0:
        raise impossible(call, Why.NO_FACTOR_SCALE())
    stored = stored_weights(weights, 2.0**-weight, numerics)
    if numerics.form == "power_of_two":
        ends: dict[str, int | float] = {"shift": weight + position(scales[0]) - position(scales[2])}
    else:
        ends = scaling(call, 2.0**-weight * scales[0] / scales[2], numerics)
    shift = int(ends.get("shift", 0))
    if numerics.form == "power_of_two" and not numerics.shift.holds(shift):
        raise impossible(call, Why.SHIFT(needed=shift, low=numerics.shift.low, high=numerics.shift.high))
    most = max(int(np.abs(stored.astype(np.int16)).max(initial=0)), 1 << weight) * numerics.magnitude
    if most + (1 << max(shift - 1, 0) if numerics.form == "power_of_two" else 0) > numerics.accumulator.high:
        raise impossible(call, Why.PRODUCT_BITS(bits=numerics.accumulator_bits))
    unit = {UNIT: 1 << weight} if call.operation.unit else {}
    return Stored((stored,), unit | ends | shape_of(call) | limits(call, scales[2], numerics, zeros))


def table(call: Call, given: float, result: float, numerics: Numerics, zeros: tuple[int, int] = (0, 0)) -> Stored:
    """A function of one element as 256 stored values, for every stored integer from the least on. given, result: scales. zeros: of both."""
    first = first_stored(numerics)
    steps = (np.arange(first, first + 256) - zeros[0]) * np.float64(given)
    values, held = evaluate_table(call.operation, steps).astype(np.float32), numerics.activation
    return Stored((quantize(values, result, held.low, held.high, numerics, zeros[1]),), {})


def impossible(call: Call, reason: Reason) -> UserError:
    """E0919 for a call that has no integers, and why."""
    return refuse("E0919", Why.NO_INTEGERS([reason], node=call.name, operation=call.kind))
