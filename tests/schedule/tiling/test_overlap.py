"""The estimate of units side by side lies between the busiest of them and all of them in turn."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.tiling.overlap import overlapped

CYCLES = st.lists(st.integers(0, 1 << 40).map(float), min_size=1, max_size=5)


@given(busy=CYCLES, ends=st.integers(0, 1 << 20).map(float))
def test_units_hide_behind_the_busiest_one(busy: list[float], ends: float) -> None:
    assert max(busy) + ends <= overlapped(busy, ends) <= sum(busy) + ends
    assert overlapped(busy, ends, 1) == sum(busy)


@given(busy=CYCLES)
def test_tiles_at_once_and_one_by_one_cost_the_same(busy: list[float]) -> None:
    columns = [np.full(3, cycles) for cycles in busy]
    np.testing.assert_array_equal(overlapped(columns, np.zeros(3)), np.full(3, overlapped(busy, 0.0)))
