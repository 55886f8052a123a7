"""Requantisation against exact fractions."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.graph.integers.endings import ROUNDINGS
from toolchain.operations.ending import Scaling, quantize, requantised, rounded_shift, scaling_of, twice_rounded
from toolchain.spec.model.quantisation import FirstRounding, Numerics, Range, Rounding

HALF = Scaling(shift=np.int64(1))


def rounded(value: Fraction, rounding: Rounding) -> int:
    """By the meaning of the word."""
    below, half = floor(value), Fraction(1, 2)
    if value - below != half or rounding == "floor":
        return below if rounding == "floor" or value - below < half else below + 1
    return {"half_up": below + 1, "half_even": below + below % 2, "half_away": below if value < 0 else below + 1}[rounding]


@settings(max_examples=60)
@given(st.integers(-(2**40), 2**40), st.integers(0, 45), st.sampled_from(ROUNDINGS))
def test_a_rounded_shift(value: int, shift: int, rounding: Rounding) -> None:
    assert rounded_shift(np.array([value]), np.int64(shift), rounding)[0] == rounded(Fraction(value, 2**shift), rounding)


@given(st.integers(-300, 300), st.integers(0, 4), st.sampled_from(ROUNDINGS))
def test_quantisation_of_what_lies_between_two_steps(parts: int, shift: int, rounding: Rounding) -> None:
    wanted = min(max(rounded(Fraction(parts, 2**shift), rounding), -100), 120)
    assert quantize(np.array([parts / 2**shift * 0.25], np.float32), 0.25, -100, 120, Numerics(rounding=rounding))[0] == wanted
    assert ceil(wanted) == wanted


def test_a_leaky_slope_before_and_after_rounding() -> None:
    total, ends = np.array([-7, 7, -1000]), {"low": -128, "high": 127, "slope": 1, "slope_shift": 1}
    early = requantised(total, HALF, True, ends, Numerics(order="activation_first"))
    late = requantised(total, HALF, True, ends, Numerics(order="shift_first"))
    assert (early.tolist(), late.tolist()) == ([-2, 4, -128], [-1, 4, -128])


def tflite(value: int, multiplier: int, exponent: int) -> int:
    """MultiplyByQuantizedMultiplier as TensorFlow Lite defines it: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT."""
    left, right = max(exponent, 0), max(-exponent, 0)
    product = (value << left) * multiplier
    nudged = product + (1 << 30 if product >= 0 else 1 - (1 << 30))
    high = abs(nudged) >> 31 if nudged >= 0 else -(abs(nudged) >> 31)  # C divides towards zero
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


@settings(max_examples=80)
@given(st.integers(-(2**28), 2**28), st.integers(2**30, 2**31 - 1), st.integers(-30, 3))
def test_double_rounding_is_tensorflow_lites(value: int, multiplier: int, exponent: int) -> None:
    numerics = Numerics(form="multiplier", multiplier_bits=31, first_rounding=FirstRounding(31, "half_up"), rounding="half_away")
    found = twice_rounded(np.array([value * multiplier]), np.int64(31 - exponent), numerics)
    assert found[0] == tflite(value, multiplier, exponent)


def test_two_roundings_are_not_one() -> None:
    """0.75 becomes 1 of two steps, and that is a tie; -0.5 is a tie that goes up first."""
    once, twice = Numerics(form="multiplier", rounding="half_away"), Numerics(rounding="half_away", first_rounding=FirstRounding(2, "half_up"))
    values = np.array([3, -2, -6])
    assert twice_rounded(values, np.int64(3), once).tolist() == [0, 0, -1]
    assert twice_rounded(values, np.int64(3), twice).tolist() == [1, 0, -1]


def nearest_float(value: Fraction) -> Fraction:
    """The nearest number of 24 bits, ties to even."""
    if not value:
        return value
    size, exponent = abs(value), 0
    while size >= 2**24:
        size, exponent = size / 2, exponent + 1
    while size < 2**23:
        size, exponent = size * 2, exponent - 1
    return rounded(size, "half_even") * Fraction(2) ** exponent * (1 if value > 0 else -1)


@settings(max_examples=60)
@given(st.integers(-(2**31), 2**31 - 1), st.floats(2.0**-30, 1.0, width=32), st.sampled_from(ROUNDINGS), st.integers(0, 255))
def test_a_scale_in_float32(total: int, scale: float, rounding: Rounding, zero: int) -> None:
    numerics = Numerics(form="float32", rounding=rounding, activation=Range(0, 255), zero_points=True)
    exact = nearest_float(nearest_float(Fraction(total)) * Fraction(scale))
    found = requantised(np.array([total]), scaling_of({"scale": scale}), False, {"low": 0, "high": 255, "zero_y": zero}, numerics)
    assert found.dtype == np.uint8
    assert found[0] == min(max(rounded(exact, rounding) + zero, 0), 255)
