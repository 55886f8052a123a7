"""Runs and faults of footprints: merged, sorted; elements to granules with bounds, banks and rings."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import tiny
from toolchain.isa.footprint.footprints import ALIGN, BANK, RANGE, Faults, Runs, element_runs, join_faults, join_runs, merge_runs
from toolchain.isa.program import Ints

Row = tuple[int, int, bool, int, int]
FAR = (1 << 60) - 8

ROWS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 3, 300]), st.booleans(), st.integers(0, 12), st.integers(1, 4)), max_size=40)


def made(rows: list[Row]) -> Runs:
    table = np.array(rows, np.int64).reshape(-1, 5)
    return Runs(table[:, 0], table[:, 1], table[:, 2] != 0, table[:, 3], table[:, 4])


def rows_of(runs: Runs) -> list[Row]:
    columns = (runs.instruction.tolist(), runs.memory.tolist(), runs.write.tolist(), runs.start.tolist(), runs.stop.tolist())
    return list(zip(*columns, strict=True))


def merged_by_hand(rows: list[Row]) -> list[Row]:
    """Granule by granule."""
    held: dict[tuple[int, int, bool], set[int]] = {}
    for instruction, memory, write, start, stop in rows:
        held.setdefault((instruction, memory, write), set()).update(range(start, stop))
    found: list[Row] = []
    for group, places in sorted(held.items()):
        starts = [p for p in sorted(places) if p - 1 not in places]
        stops = [p + 1 for p in sorted(places) if p + 1 not in places]
        found += [(*group, start, stop) for start, stop in zip(starts, stops, strict=True)]
    return found


@settings(max_examples=30, deadline=None)
@given(ROWS, st.sampled_from([0, FAR]))
def test_merging_keeps_every_granule(parts: list[Row], base: int) -> None:
    rows = [(i, m, w, base + start, base + start + count) for i, m, w, start, count in parts]
    assert rows_of(merge_runs(made(rows))) == merged_by_hand(rows)


def test_near_and_far_places_of_many_instructions() -> None:
    rows = [(i, 0, False, start, start + 5) for i in range(64) for start in (3, 1 << 60)]
    assert rows_of(merge_runs(made(rows))) == rows


def test_joining_nothing() -> None:
    assert len(join_runs([])) == 0
    assert len(merge_runs(join_runs([]))) == 0
    assert len(join_faults([])) == 0


def test_faults_of_one_access_are_one_with_its_extremes() -> None:
    def faults(*rows: tuple[int, int, int, int, int]) -> Faults:
        return Faults(*np.array(rows, np.int64).T.copy())

    joined = join_faults([faults((1, 2, 0, 7, 9), (0, 2, 0, 1, 1)), faults((1, 2, 0, 4, 8), (1, 2, 1, 5, 5))])
    found = [joined.instruction, joined.access, joined.kind, joined.low, joined.high]
    assert np.array(found).T.tolist() == [[0, 2, 0, 1, 1], [1, 2, 0, 4, 9], [1, 2, 1, 5, 5]]


MACHINE = tiny("pass")
Found = tuple[list[tuple[int, int]], list[tuple[int, int, int]]]


def found(view: str, index: list[list[int]], count: list[int], instance: int = 0, spacing: int = 1) -> Found:
    """([start, stop) runs, (kind, low, high) faults) of rows of elements, index by index."""
    columns: list[Ints] = [np.array(part, np.int64) for part in index]
    rows = np.arange(len(count))
    where = np.full(len(count), instance)
    runs, faults = element_runs(MACHINE, MACHINE.view[view], rows, True, where, columns, np.array(count, np.int64), 7, spacing)
    assert set(faults.access.tolist()) <= {7}
    spans = zip(runs.start.tolist(), runs.stop.tolist(), strict=True)
    return sorted(spans), list(zip(faults.kind.tolist(), faults.low.tolist(), faults.high.tolist(), strict=True))


def test_neighbours_are_one_run_of_granules() -> None:
    granule, element = MACHINE.memory["par"].granule, MACHINE.memory["par"].element.bytes
    assert found("par", [[1]], [2]) == ([(element // granule, 3 * element // granule)], [])
    own = 4 * element // granule
    assert found("par", [[0]], [4], instance=1) == ([(own, 2 * own)], [])


def test_outside_is_a_fault_and_no_run() -> None:
    assert found("par", [[3]], [2]) == ([], [(RANGE, 4, 4)])
    assert found("par", [[-2]], [1]) == ([], [(RANGE, -2, -2)])
    assert found("par", [[-2]], [8]) == ([], [(RANGE, -2, 5)])


def test_a_ring_turns_at_the_depth_of_its_bank() -> None:
    size, granule = MACHINE.memory["feat"].element.bytes, MACHINE.memory["feat"].granule
    unit = size // granule
    assert found("feat", [[0], [7]], [2]) == ([(0, unit), (7 * unit, 8 * unit)], [])
    assert found("feat", [[1], [-1]], [1]) == ([(11 * unit, 12 * unit)], [])
    assert found("feat", [[1], [9]], [4]) == ([(8 * unit, 9 * unit), (9 * unit, 12 * unit)], [])


def test_no_such_bank() -> None:
    assert found("feat", [[2], [0]], [1]) == ([], [(BANK, 2, 2)])
    assert found("feat", [[-1], [0]], [1]) == ([], [(BANK, -1, -1)])


def test_between_granules() -> None:
    assert MACHINE.memory["loop"].granule == 4
    assert found("loop.wide", [[2]], [1]) == ([], [(ALIGN, 2, 2)])
