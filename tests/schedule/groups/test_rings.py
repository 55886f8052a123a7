"""Rings beside each other: lines that are made at one time do not meet."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.groups.rings import Stream, lay_rings
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.rounds import RowRing
from toolchain.schedule.placement.on_chip_allocation import Lines

POOL = Pool(8, 8192)


def stream(name: str, line: int, rows: int = 64, late: int = 0, most: int = 4096) -> Stream:
    return Stream(name, Lines(8, "line", line, most), rows, late)


def test_rings_of_one_height_share_a_pitch() -> None:
    assert lay_rings([stream("a", 896), stream("b", 448)], POOL, 64) == {
        "a": (Slot(8, 0), RowRing(1344, 8192)),
        "b": (Slot(8, 896), RowRing(1344, 8192)),
    }


def test_lower_ones_take_turns_in_one_track() -> None:
    found = lay_rings([stream("a", 100), stream("b", 90, 32), stream("c", 80, 32)], POOL, 64)
    assert found == {
        "a": (Slot(8, 0), RowRing(190, 8192)),
        "b": (Slot(8, 100), RowRing(380, 8192)),
        "c": (Slot(8, 290), RowRing(380, 8192)),
    }


def test_lines_too_far_apart_are_refused() -> None:
    assert lay_rings([stream("a", 2000), stream("b", 2000, most=2048)], POOL, 64) is None


@given(st.lists(st.tuples(st.integers(1, 300), st.sampled_from([64, 32, 16]), st.integers(0, 40)), min_size=1, max_size=6))
def test_lines_of_one_period_stand_apart(given_streams: list[tuple[int, int, int]]) -> None:
    streams = [stream(f"s{k}", *found, most=1 << 20) for k, found in enumerate(given_streams)]
    deep = Pool(0, 1 << 20)
    laid = lay_rings(streams, deep, 64)
    assert laid is not None
    tallest = max(s.rows for s in streams)
    spans: list[tuple[int, int]] = []
    for s in streams:
        slot, ring = laid[s.name]
        begin = slot.address - s.late * tallest // 64 // 8 * (ring.pitch * s.rows // tallest)
        spans += [(begin + k * ring.pitch, begin + k * ring.pitch + s.lines.line) for k in range(8 * s.rows // tallest)]
    assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))
