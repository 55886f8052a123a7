"""The integers of an operation in a machine's own arithmetic: constants that follow from scales, and weights of norms by channels."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from toolchain.graph.integers.calls import Call
from toolchain.graph.quantisation.ranges import position
from toolchain.graph.quantisation.requantisation import (
    NO_ZEROS,
    Stored,
    by_factors,
    channel_steps,
    column_of,
    impossible,
    limits,
    scaling,
    shape_of,
    stored_weights,
)
from toolchain.operations.numbers import Attributes, complete
from toolchain.operations.whole import constants_of, most_factor, step_of, unmet
from toolchain.spec.arrays import Array, Floats, Reals
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reasons import Why

BIAS_BITS = 30
"""The bits of a bias, so that a product of as many bits may be added in 32."""


def own_total(
    call: Call, known: Sequence[Floats], given: Sequence[float], weight: float, result: float, numerics: Numerics, zeros: Mapping[str, int] = NO_ZEROS
) -> Stored:
    """known: weights, bias and factors, where the operation has them. given: scales of the inputs. weight: the scale of all weights.

    Raises UserError E0919 where the arithmetic cannot compute with these scales, or no factor gives the result's.
    """
    constants, step = _constants(call, given)
    ends = {**constants, **shape_of(call), **limits(call, result, numerics, zeros)}
    arrays = dict(zip(call.operation.known, known, strict=True))
    factors = tuple(_factors(call, array, numerics) for name, array in arrays.items() if name == call.operation.channel_factors)
    if call.operation.bias:
        return _layer(call, arrays[call.operation.weights], arrays[call.operation.bias], factors, (step, weight, result), numerics, ends)
    if not call.operation.weights:
        return Stored(factors, ends | _scaled(call, step, result, numerics))
    stored = stored_weights(arrays[call.operation.weights], weight, numerics)
    return Stored((stored, *factors), ends | _scaled(call, step * weight, result, numerics))


def _factors(call: Call, factors: Floats, numerics: Numerics) -> Array:
    """int8, as they are. Raises UserError E0919 for others than whole numbers from 1 to the largest that the arithmetic takes."""
    high = min(most_factor(call.operation, complete(call.operation, call.known_numbers)), numerics.weight.high)
    if (np.rint(factors) != factors).any() or not 1 <= factors.min() <= factors.max() <= high:
        raise impossible(call, Why.NO_WHOLE_FACTORS(high=high))
    return factors.astype(np.int8)


def _constants(call: Call, given: Sequence[float]) -> tuple[dict[str, int], float]:
    """The whole numbers that follow from the scales, and the value of 1 in the exact result where weights are 1."""
    own = call.operation.arithmetic
    assert own is not None
    scales, numbers = dict(zip(call.operation.data, given, strict=True)), complete(call.operation, call.known_numbers)
    constants = constants_of(own, scales, numbers)
    if message := unmet(own, {**numbers, **constants}):
        raise impossible(call, Why.ARITHMETIC(message=message))
    return constants, step_of(own, scales, {**numbers, **constants})


def _scaled(call: Call, step: float, result: float, numerics: Numerics) -> dict[str, int | float]:
    """The requantisation of an exact result, one for all channels."""
    if numerics.form != "power_of_two":
        return scaling(call, step / result, numerics)
    if not step or math.frexp(step)[0] != 0.5:
        raise impossible(call, Why.NO_STEP(step=step))
    shift = position(step) - position(result)
    if not numerics.shift.holds(shift):
        raise impossible(call, Why.SHIFT(needed=shift, low=numerics.shift.low, high=numerics.shift.high))
    return {"shift": shift}


def _layer(
    call: Call, weights: Floats, bias: Floats, factors: tuple[Array, ...], scales: tuple[float, float, float], numerics: Numerics, ends: Attributes
) -> Stored:
    """An operation with weights and a bias, on a machine that multiplies. scales: the value of 1 in the exact result where weights are 1, of all
    weights, and of the result."""
    step, weight, result = scales
    if numerics.form == "power_of_two":
        raise impossible(call, Why.NO_WEIGHT_SCALE())
    steps = _steps_of(weights, bias, step, weight, numerics)
    stored = stored_weights(weights, column_of(steps, weights) if numerics.per_channel else np.float32(steps[0]), numerics)
    most = (1 << BIAS_BITS) - 1  # a scale that was rounded to float32 may be a little finer than it had to be
    whole = np.clip(np.rint(bias.astype(np.float64) / (steps * step)), -most, most).astype(np.int32)
    return by_factors(call, (stored, whole, *factors), [float(each) * step / result for each in steps], {"bias_shift": 0, **ends}, numerics)


def _steps_of(weights: Floats, bias: Floats, step: float, weight: float, numerics: Numerics) -> Reals:
    """The scale of each channel's weights, coarse enough for its bias."""
    fine = channel_steps(weights, weight, numerics).astype(np.float32).astype(np.float64)
    least = np.abs(bias.astype(np.float64)) / (step * ((1 << BIAS_BITS) - 1))
    steps = np.maximum(fine, least if numerics.per_channel else least.max(initial=0))
    return steps.astype(np.float32).astype(np.float64)
