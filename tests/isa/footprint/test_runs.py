"""Elements to granules: bounds, banks of their own depth, rings that turn."""

import numpy as np

from tests.tiny_machine import tiny
from toolchain.isa.footprint.footprints import ALIGN, BANK, RANGE
from toolchain.isa.footprint.runs import element_runs
from toolchain.isa.program import Ints

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
