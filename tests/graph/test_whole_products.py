"""Products of bytes are exact, for every size and at the ends of every type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolchain.graph import whole_products as module
from toolchain.graph.whole_products import LARGEST, digits_of, joined_digits, whole_products

Array = NDArray[np.int64]


def wanted(one: NDArray[np.generic], other: NDArray[np.generic]) -> Array:
    return np.matmul(one.astype(np.int64), other.astype(np.int64))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.tuples(*[st.integers(1, 70)] * 3), st.sampled_from([np.int8, np.int16]), st.booleans())
def test_products_are_exact(seed: int, groups: int, sizes: tuple[int, int, int], dtype: type[np.integer], turned: bool) -> None:
    draw, (m, k, n) = np.random.default_rng(seed), sizes
    one = draw.choice([-128, -127, -1, 0, 1, 127], (groups, m, k)).astype(np.int8)
    other = draw.integers(-128, 128, (groups, n, k) if turned else (groups, k, n)).astype(dtype)
    other = other.transpose(0, 2, 1) if turned else other
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL", 0)
        for mine, its in zip(one, other, strict=True):
            assert np.array_equal(whole_products(mine, its), wanted(mine, its))


@pytest.mark.parametrize("signed", [module.takes_signs(), False])
def test_the_largest_products_do_not_overflow(signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both products that a processor may take; pairs of the largest of unsigned and signed bytes need 17 bits."""
    monkeypatch.setattr(module, "takes_signs", lambda: signed)
    draw = np.random.default_rng(0)
    one, other = draw.choice([-128, 127], (70, 300)).astype(np.int8), draw.choice([-128, 127], (300, 90)).astype(np.int8)
    assert np.array_equal(module.multiplied(one, other), wanted(one, other))


def test_long_sums_are_taken_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", 0)
    one, other = np.full((2, 3 * module.LONGEST + 5), -128, np.int8), np.full((3 * module.LONGEST + 5, 2), -128, np.int8)
    assert (whole_products(one, other) == 128**2 * (3 * module.LONGEST + 5)).all()


@given(st.lists(st.integers(-LARGEST, LARGEST), min_size=1, max_size=50), st.integers(-128, 127))
def test_numbers_are_those_of_their_digits(values: list[int], factor: int) -> None:
    whole = np.array([values], np.float64)
    digits = digits_of(whole)
    assert {digit.dtype for digit in digits} == {np.dtype(np.int8)}
    found = joined_digits([whole_products(digit, np.full((len(values), 1), factor, np.int8)) for digit in digits])
    assert found.item() == sum(values) * factor
