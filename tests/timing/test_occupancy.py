"""Occupancy: equal to a count, granule by granule, of data that an instruction still reads."""

import numpy as np
import pytest

from tests.random_programs import random_program
from tests.target_runs import timed
from toolchain.isa.footprint.footprints import granules
from toolchain.spec.load import load_machine
from toolchain.timing.occupancy import POINTS, RANGES, occupancy
from toolchain.timing.simulate import Timeline


def lives(timeline: Timeline, memory: int, block: int) -> list[tuple[float, float]]:
    """By brute force: every block's accesses one after the other."""
    runs, found = timeline.footprints.runs, []
    start, end = timeline.result.start, timeline.result.end
    accesses: dict[int, list[tuple[float, bool, float]]] = {}
    for row in np.flatnonzero(runs.memory == memory).tolist():
        i = int(runs.instruction[row])
        for place in range(int(runs.start[row]) // block, (int(runs.stop[row]) - 1) // block + 1):
            accesses.setdefault(place, []).append((float(start[i]), bool(runs.write[row]), float(end[i])))
    for rows in accesses.values():
        written, read = 0.0, -1.0
        for began, write, ended in sorted(rows):
            if write:
                found.append((written, min(read, began)))
                written, read = began, -1.0
            else:
                read = max(read, ended)
        found.append((written, read))
    return [(a, b) for a, b in found if b > a]


@pytest.mark.parametrize("target", ["vta", "dpuv3", "dnnvm"])
@pytest.mark.parametrize("seed", range(4))
def test_it_counts_what_is_still_read(target: str, seed: int) -> None:
    machine = load_machine(target)
    timeline = timed(random_program(machine, seed, 60, chained=1.0))
    seen = 0
    for found in occupancy(timeline):
        number = machine.memories.index(machine.memory[found.memory])
        size = machine.memories[number].granule
        assert found.block in (size, -(-(found.capacity // size) // RANGES) * size)
        each = lives(timeline, number, found.block // size)
        for at, held in zip(found.cycles.tolist(), found.bytes.tolist(), strict=True):
            assert held == min(sum(a <= at < b for a, b in each) * found.block, found.capacity)
        seen += bool(each)
        assert found.capacity % (granules(machine.memory[found.memory]) * size) == 0
    assert seen or not any(m.kind in ("scratchpad", "ring") for m in machine.memories)


def test_long_programs_keep_their_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("vta")
    timeline = timed(random_program(machine, 1, 80, chained=1.0))
    fine = occupancy(timeline)
    monkeypatch.setattr("toolchain.timing.occupancy.POINTS", 4)
    for whole, coarse in zip(fine, occupancy(timeline), strict=True):
        assert len(coarse.cycles) <= 4 < POINTS
        assert coarse.bytes.max() == whole.bytes.max()


def test_ranges_are_rounded_outwards_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("vta")
    timeline = timed(random_program(machine, 2, 80, chained=1.0))
    fine = {found.memory: found for found in occupancy(timeline)}
    monkeypatch.setattr("toolchain.timing.occupancy.RANGES", 2)
    coarse = {found.memory: found for found in occupancy(timeline)}
    assert any(coarse[name].block > fine[name].block for name in fine)
    assert all(coarse[name].bytes.max() >= fine[name].bytes.max() for name in fine)
