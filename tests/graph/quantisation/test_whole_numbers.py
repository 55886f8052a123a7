"""Products of bytes are exact, for every size and at the ends of every type.

The sweep in C leaves the same steps as the one in numpy, and every step goes to the nearest whole number that the limits allow.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolchain.graph.quantisation import whole_numbers as module
from toolchain.graph.quantisation.whole_numbers import MOST, PART, descend, units_of, whole_products
from toolchain.spec.compile import compiler

Array = NDArray[np.int64]


def wanted(one: NDArray[np.generic], other: NDArray[np.generic]) -> Array:
    return np.matmul(one.astype(np.int64), other.astype(np.int64))


TYPES = st.sampled_from([np.int8, np.int16])
WAYS = [pytest.param("", marks=pytest.mark.skipif(not compiler(), reason="no C compiler")), "none"]
"""Compilers: the one that there is, and none."""


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.tuples(*[st.integers(1, 70)] * 3), st.tuples(TYPES, TYPES), st.tuples(st.booleans(), st.booleans()))
def test_products_are_exact(
    way: str, seed: int, sizes: tuple[int, int, int], types: tuple[type[np.integer], type[np.integer]], turned: tuple[bool, bool]
) -> None:
    """Of both types, in rows or in columns, with the ends of a byte among them."""
    draw, (m, k, n) = np.random.default_rng(seed), sizes
    one, other = (
        draw.choice([-128, -127, -1, 0, 1, 127], size[::-1]).astype(dtype).T if turn else draw.integers(-128, 128, size).astype(dtype)
        for size, dtype, turn in zip(((m, k), (k, n)), types, turned, strict=True)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL", 0)
        patch.setenv("TILEWRIGHT_CC", way)
        assert np.array_equal(whole_products(one, other), wanted(one, other))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ends", [(-MOST - 1, MOST), (-MOST, MOST), (-128, MOST), (-4000, 4000), (MOST, MOST)])
@pytest.mark.parametrize("size", [(1, 1, 1), (7, 333, 17), (13, 1000, 300)])
def test_sums_of_numbers_of_16_bits_do_not_overflow(
    way: str, ends: tuple[int, int], size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setenv("TILEWRIGHT_CC", way)
    m, k, n = size
    one, other = np.full((m, k), ends[0], np.int16), np.full((k, n), ends[1], np.int16)
    assert (whole_products(one, other) == k * ends[0] * ends[1]).all()


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9), st.integers(2, 14))
def test_the_largest_of_a_row_has_so_many_bits(row: list[float], bits: int) -> None:
    rows = np.array([row, [0.0] * len(row)])
    found = rows / units_of(rows, bits)
    assert (np.abs(found) <= 2.0**bits).all()
    if rows.any():
        assert np.abs(found[0]).max() >= 2.0 ** (bits - 1)
    assert units_of(rows, bits)[1] == 1


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


FINE = 1 << 10
LIMITS = (-8, 7)


def block(seed: int, columns: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stored weights, slopes of their errors and H; slopes of a half of the diagonal among them."""
    draw = np.random.default_rng(seed)
    inputs = draw.integers(-20, 21, (2 * columns, columns)).astype(np.float64)
    h = np.rint((inputs.T @ inputs) / 4).astype(np.int16)  # up to 20 ** 2 * 140 / 4
    wanted = draw.normal(0, 5, (columns, rows))
    stored = np.clip(np.rint(wanted), *LIMITS)
    slopes = h.astype(np.float64) @ (stored * FINE - np.rint(wanted * FINE))
    slopes[0] = max(float(h[0, 0]), 1.0) * FINE / 2 * draw.choice([-3, -1, 1, 3], rows)
    return stored, slopes, h


@given(st.integers(0, 2**32), st.integers(1, 70), st.integers(1, 20))
def test_c_and_numpy_agree(seed: int, columns: int, rows: int) -> None:
    if not compiler():
        pytest.skip("no C compiler")
    stored, slopes, h = block(seed, columns, rows)
    found = descend(stored, slopes.copy(), h, LIMITS, FINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CC", "none")
        assert np.array_equal(found, descend(stored, slopes.copy(), h, LIMITS, FINE))


@pytest.mark.parametrize("columns", [PART - 1, PART, PART + 1, 2 * PART + 7])
def test_steps_of_a_part_reach_the_parts_behind_it(columns: int) -> None:
    stored, slopes, h = block(columns, columns, 9)
    found = descend(stored, slopes.copy(), h, LIMITS, FINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CC", "none")
        assert np.array_equal(found, descend(stored, slopes.copy(), h, LIMITS, FINE))
    assert found[-7:].any()


@given(st.integers(0, 2**32), st.integers(2, 40))
def test_parts_of_a_larger_matrix_count_alone(seed: int, columns: int) -> None:
    stored, slopes, h = block(seed, columns, 3)
    wide = np.full((columns, columns + 5), MOST, np.int16)
    wide[:, 2 : columns + 2] = h
    assert np.array_equal(descend(stored, slopes.copy(), wide[:, 2 : columns + 2], LIMITS, FINE), descend(stored, slopes.copy(), h, LIMITS, FINE))


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 9))
def test_each_step_is_the_best_of_its_weight(seed: int, columns: int, rows: int) -> None:
    stored, slopes, h = block(seed, columns, rows)
    steps = descend(stored, slopes.copy(), h, LIMITS, FINE)
    for k in range(columns):
        slope = slopes[k] + h[k, :k].astype(np.float64) @ steps[:k] * FINE
        best = np.clip(stored[k] - np.rint(slope / (float(h[k, k]) * FINE if h[k, k] > 1 else FINE)), *LIMITS)
        assert np.array_equal(stored[k] + steps[k], best)
