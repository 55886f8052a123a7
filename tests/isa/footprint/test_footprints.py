"""Runs and faults of footprints: merged, sorted, whatever their places."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.isa.footprint.footprints import Faults, Runs, join_faults, join_runs, merge_runs

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
