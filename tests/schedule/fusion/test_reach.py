"""The part of a maker that a tile needs: every unit that some element reads, and no range that is longer than need be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.fusion.reach import Reach


@st.composite
def reaches(draw: st.DrawFn) -> Reach:
    """Windows that slide over a picture with padding."""
    stride, reach, pad, count = (draw(st.integers(low, high)) for low, high in ((1, 3), (1, 5), (0, 2), (1, 40)))
    pad = min(pad, reach - 1)
    at = np.arange(count) * stride - pad
    extent = max(int(at[-1]) + reach - pad, 1)
    return Reach("oh", np.clip(at, 0, extent - 1), np.maximum(np.clip(at + reach, 0, extent), np.clip(at, 0, extent - 1) + 1))


@given(reaches(), st.integers(1, 40))
def test_the_largest_part_is_that_of_some_tile(reach: Reach, size: int) -> None:
    tiles = [(first, min(size, len(reach.first) - first)) for first in range(0, len(reach.first), size)]
    parts = [reach.part(*tile) for tile in tiles]
    assert max(count for _, count in parts) == reach.largest(size)
    for (first, count), (start, units) in zip(tiles, parts, strict=True):
        assert start == min(reach.first[first : first + count])
        assert start + units == max(reach.stop[first : first + count])


@given(reaches())
def test_all_is_read_where_windows_meet(reach: Reach) -> None:
    units = {unit for first, stop in zip(reach.first, reach.stop, strict=True) for unit in range(first, stop)}
    extent = max(units) + 1
    assert reach.covers(extent) == (units == set(range(extent)))
