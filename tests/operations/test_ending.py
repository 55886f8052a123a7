"""Requantisation against exact fractions."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.graph.numerics import ROUNDINGS, Numerics, Rounding
from toolchain.operations.ending import quantize, requantised, rounded_shift, shifts_of


def rounded(value: Fraction, rounding: Rounding) -> int:
    """By the meaning of the word."""
    below, half = floor(value), Fraction(1, 2)
    if value - below != half or rounding == "floor":
        return below if rounding == "floor" or value - below < half else below + 1
    return {"half_up": below + 1, "half_even": below + below % 2, "half_away": below if value < 0 else below + 1}[rounding]


@settings(max_examples=200)
@given(st.integers(-(2**40), 2**40), st.integers(0, 45), st.sampled_from(ROUNDINGS))
def test_a_rounded_shift(value: int, shift: int, rounding: Rounding) -> None:
    assert rounded_shift(np.array([value]), np.int64(shift), rounding)[0] == rounded(Fraction(value, 2**shift), rounding)


@given(st.integers(-300, 300), st.integers(0, 4), st.sampled_from(ROUNDINGS))
def test_quantisation_of_what_lies_between_two_steps(parts: int, shift: int, rounding: Rounding) -> None:
    wanted = min(max(rounded(Fraction(parts, 2**shift), rounding), -100), 120)
    assert quantize(np.array([parts / 2**shift * 0.25], np.float32), 0.25, -100, 120, rounding)[0] == wanted
    assert ceil(wanted) == wanted


def test_a_leaky_slope_before_and_after_rounding() -> None:
    total, ends = np.array([-7, 7, -1000]), {"low": -128, "high": 127, "slope": 1, "slope_shift": 1}
    early = requantised(total, np.int64(1), True, ends, Numerics(order="activation_first"))
    late = requantised(total, np.int64(1), True, ends, Numerics(order="shift_first"))
    assert (early.tolist(), late.tolist()) == ([-2, 4, -128], [-1, 4, -128])


def test_exponents_of_powers_of_two() -> None:
    assert shifts_of(np.array([1.0, 2.0, 1024.0])).tolist() == [0, 1, 10]
