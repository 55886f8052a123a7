"""Exact conversions against numpy's own float32."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.spec.exact_floats import Real, decode, encode, from_fraction, is_exact
from toolchain.spec.model.types import F32

BITS = st.integers(0, (1 << 32) - 1)


def number(bits: int) -> float:
    """The float32 of its bits, as numpy has it."""
    return float(np.uint32(bits).view(np.float32))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(BITS)
def test_bits_mean_what_numpy_says(bits: int) -> None:
    found, wanted = decode(bits, F32), number(bits)
    if found is None:
        assert math.isnan(wanted)
        return
    assert found.negative == (math.copysign(1, wanted) < 0)
    assert (math.inf if found.size is None else found.size) == abs(wanted)
    assert encode(found, F32) & 0xFFFFFFFF == bits


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.floats(width=64, allow_nan=False))
def test_a_double_rounds_as_numpy_rounds(value: float) -> None:
    exact = Real(math.copysign(1, value) < 0, None if math.isinf(value) else abs(Fraction(value)))
    with np.errstate(over="ignore"):
        assert encode(exact, F32) == np.float64(value).astype(np.float32).view(np.int32)


def test_every_nan_becomes_one() -> None:
    assert encode(None, F32) == 0x7FC00000
    assert {decode(bits, F32) for bits in (0x7F800001, 0x7FC00000, 0xFFC00001)} == {None}


def test_integers_round_to_even() -> None:
    assert number(from_fraction((1 << 24) + 1, F32)) == 1 << 24
    assert number(from_fraction((1 << 24) + 3, F32)) == (1 << 24) + 4
    assert is_exact(1 << 24, F32)
    assert not is_exact((1 << 24) + 1, F32)


def test_a_zero_keeps_its_sign() -> None:
    assert from_fraction(0, F32) == 0
    assert from_fraction(0, F32, negative_zero=True) == -(1 << 31)
    assert from_fraction(Fraction(-1, 1 << 200), F32) == -(1 << 31)
