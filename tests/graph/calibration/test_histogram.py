"""What a histogram of octaves tells of values, against the values themselves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.graph.calibration.histogram import BINS, Spread, centre, count, rounded, spread

WIDTH = 1.13
"""A value is at most this much larger or smaller than the middle of its bin: a quarter of an octave's start, split in two."""


def values_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_t(3, 3000) * 2.0 ** rng.integers(-20, 20)).astype(np.float32)


@given(st.floats(2**-100, 2**100, width=32))
def test_the_middle_of_a_bin_is_near_every_value_in_it(value: float) -> None:
    (number,) = np.flatnonzero(count(np.array([value, -value], np.float32)))
    assert 1 / WIDTH <= value / centre(int(number)) <= WIDTH


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20))
def test_deviation_is_the_root_mean_square(seed: int) -> None:
    values = values_of(seed)
    found, wanted = spread(count(values), float(np.abs(values).max())).deviation, float(np.sqrt((values.astype(np.float64) ** 2).mean()))
    assert wanted / WIDTH <= found <= wanted * WIDTH


def test_deviation_of_what_only_a_range_is_known_of_is_the_range() -> None:
    assert Spread(3.0, ()).deviation == 3.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(0, 2**20))
def test_counts_of_parts_add_up(seed: int, other: int) -> None:
    one, two = values_of(seed), values_of(other)
    together = count(np.concatenate([one, two]))
    assert len(together) == BINS
    np.testing.assert_array_equal(count(one) + count(two), together)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.lists(st.floats(0.001, 1), min_size=2, max_size=5))
def test_a_larger_share_takes_no_smaller_value(seed: int, shares: list[float]) -> None:
    values = values_of(seed)
    seen = spread(count(values), float(np.abs(values).max()))
    found = [seen.percentile(share) for share in sorted(shares)]
    assert found == sorted(found)
    assert found[-1] <= seen.maximum


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(3, 12))
def test_the_error_of_a_step_is_that_of_rounding(seed: int, halvings: int) -> None:
    """Parts per million of all values, so a million times the mean; steps fine enough for the middle of a bin to speak for it."""
    values = values_of(seed).astype(np.float64)
    largest = float(np.abs(values).max())
    step = largest / 2**halvings / 16
    limit = largest / 2 ** (halvings % 3)
    found = spread(count(values.astype(np.float32)), largest).squared_error(step, limit) / 1e6
    wanted = float(((np.clip(np.rint(values / step) * step, -limit, limit) - values) ** 2).mean())
    assert wanted / 3 <= found <= wanted * 3 + step * step / 12


def test_digits_that_are_kept() -> None:
    assert [rounded(value) for value in (123456.0, 0.000123456, -9.99999, 0.0)] == [123500.0, 0.0001235, -10.0, 0.0]
