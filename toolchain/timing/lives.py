"""Lives of on-chip data: from a write to the last read before the next write, range by range, of the program's footprints alone."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Runs, granules
from toolchain.isa.program import Ints
from toolchain.spec.model import Memory
from toolchain.timing.simulate import Timeline
from toolchain.timing.timeline import Times

RANGES = 1 << 10
"""The most ranges of a memory that are told apart."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Lives:
    """Data of one memory, all instances end to end; lockstep replicas count once. begin, stop: cycles, float64 [n]; low, high: bytes, int64 [n].

    writer: the instruction, int64 [n]; -1 for data that was there before the program. capacity, block: bytes; ranges begin and end on multiples of
    `block`. Data that no instruction reads is left out.
    """

    begin: Times
    stop: Times
    low: Ints
    high: Ints
    writer: Ints
    capacity: int
    block: int


def lives_of(timeline: Timeline) -> Iterator[tuple[Memory, Lives]]:
    """Lives in each on-chip memory that the program touches."""
    prints, machine = timeline.footprints, timeline.program.machine
    for number, memory in enumerate(machine.memories):
        runs = prints.runs.take(prints.runs.memory == number)
        if memory.kind in ("scratchpad", "ring") and len(runs):
            yield memory, _of_memory(timeline, memory, runs, 1 if memory.name in prints.alike else machine.instances(memory.scope))


def _of_memory(timeline: Timeline, memory: Memory, runs: Runs, instances: int) -> Lives:
    whole = granules(memory) * instances
    bounds, block = _bounds(runs, whole)
    start, end = timeline.result.start[runs.instruction], timeline.result.end[runs.instruction]
    order = np.lexsort((runs.write, start))  # of those that start at once a read is first: an update in place
    ordered = runs.take(order)
    begin, stop, place, head, written = _lives(*_ranges(ordered, bounds), start[order], end[order])
    writer = np.where(written, ordered.instruction[head], -1)
    size = memory.granule
    return Lives(begin, stop, bounds[place] * size, bounds[place + 1] * size, writer, whole * size, block * size)


def _bounds(runs: Runs, whole: int) -> tuple[Ints, int]:
    """Granules at which ranges begin and end, and the number that all are multiples of: 1 unless runs begin and end in too many places."""
    bounds = np.unique(np.concatenate([runs.start, runs.stop]))
    if len(bounds) <= RANGES:
        return bounds, 1
    block = -(-whole // RANGES)
    return np.unique(np.concatenate([runs.start // block * block, np.minimum(-(-runs.stop // block) * block, whole)])), block


def _ranges(runs: Runs, bounds: Ints) -> tuple[Ints, Ints, Bools]:
    """The run, the range and whether it is written, of every range that a run touches; by range, in the order of the runs."""
    first, stop = np.searchsorted(bounds, runs.start, "right") - 1, np.searchsorted(bounds, runs.stop)
    count = stop - first
    run = np.repeat(np.arange(len(runs)), count)
    place = first[run] + np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
    order = np.argsort(place.astype(np.int16), kind="stable")  # 16 bits are sorted by radix
    return run[order], place[order], runs.write[run[order]]


def _lives(run: Ints, place: Ints, write: Bools, start: Times, end: Times) -> tuple[Times, Times, Ints, Ints, Bools]:
    """When data comes into a range, when it is read last, the range, the run that it begins with, and whether that one writes."""
    changes = np.diff(place, prepend=-1) != 0
    heads = np.flatnonzero(write | changes)
    last = np.maximum.reduceat(np.where(write, -np.inf, end[run]), heads)
    following = np.append(start[run[heads[1:]]], np.inf)
    following[:-1][changes[heads[1:]]] = np.inf
    begin, stop = np.where(write[heads], start[run[heads]], 0.0), np.minimum(last, following)
    lives = stop > begin
    kept = heads[lives]
    return begin[lives], stop[lives], place[kept], run[kept], write[kept]
