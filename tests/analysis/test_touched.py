"""What was never touched is zero; all else is compared."""

import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.analysis import touched
from toolchain.analysis.state import LARGE, new_state
from toolchain.spec.load import load_machine

BYTES = 1 << 24
MACHINE = load_machine("vta", overrides={"LOG_DRAM": "24"})
PLACES = st.lists(st.integers(0, BYTES - 1), max_size=6)


def dram() -> touched.Bytes:
    return new_state(MACHINE).memories["dram"]


@given(PLACES)
def test_everything_that_is_not_zero_lies_in_a_range(places: list[int]) -> None:
    memory = dram()
    memory[0, places] = 1
    ranges = touched.touched(memory)
    assert [start for start, _ in ranges] == sorted({start for start, _ in ranges})
    assert all(any(start <= place < stop for start, stop in ranges) for place in places)


@pytest.mark.skipif(len(touched.touched(dram())) > 0, reason="the system does not tell which pages are used")
def test_a_byte_costs_a_page() -> None:
    memory = dram()
    memory[0, BYTES // 2] = 1
    assert touched.touched(memory) == [(BYTES // 2, BYTES // 2 + mmap.PAGESIZE)]


@given(PLACES, PLACES, st.booleans())
def test_the_first_difference_is_the_first(one: list[int], other: list[int], told: bool) -> None:
    a, b = dram(), dram()
    a[0, one], b[0, other] = 1, 1
    with pytest.MonkeyPatch.context() as patch:
        if not told:
            patch.setattr(touched, "PAGES", "/no/such/file")
        found = touched.first_difference(a, b)
    lone = sorted(set(one) ^ set(other))
    assert found == ((0, lone[0]) if lone else None)


def test_small_memories_are_compared_whole() -> None:
    a, b = (np.zeros((3, 100), np.uint8) for _ in range(2))
    assert a.size < LARGE
    assert touched.touched(a) == [(0, 300)]
    assert touched.first_difference(a, b) is None
    a[2, 99] = 7
    assert touched.first_difference(a, b) == (2, 99)
