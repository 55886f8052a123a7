"""Occupancy of a program's on-chip memories over time, from its footprints alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Runs, granules
from toolchain.isa.program import Ints
from toolchain.spec.model import Memory
from toolchain.timing.simulate import Timeline
from toolchain.timing.timeline import Times

RANGES, POINTS = 1 << 10, 1 << 13
"""The most ranges of a memory that are told apart, and the most points that are kept of its occupancy."""


Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Occupancy:
    """Bytes of a memory that hold data which an instruction still reads: all instances together; lockstep replicas count once.

    bytes: from `cycles` on until the next point; both float64 [points]. capacity, block: bytes; ranges begin and end on multiples of `block`.
    """

    memory: str
    capacity: int
    block: int
    cycles: Times
    bytes: Times


def occupancy(timeline: Timeline) -> tuple[Occupancy, ...]:
    """Occupancy of each on-chip memory that the program touches: a byte is occupied from a write to the last read before the next write."""
    prints, machine = timeline.footprints, timeline.program.machine
    found: list[Occupancy] = []
    for number, memory in enumerate(machine.memories):
        runs = prints.runs.take(prints.runs.memory == number)
        if memory.kind in ("scratchpad", "ring") and len(runs):
            found.append(_occupancy(timeline, memory, runs, 1 if memory.name in prints.alike else machine.instances(memory.scope)))
    return tuple(found)


def _occupancy(timeline: Timeline, memory: Memory, runs: Runs, instances: int) -> Occupancy:
    whole = granules(memory) * instances
    bounds, block = _bounds(runs, whole)
    start, end = timeline.result.start[runs.instruction], timeline.result.end[runs.instruction]
    order = np.lexsort((runs.write, start))  # of those that start at once a read is first: an update in place
    begin, stop, place = _lives(*_ranges(runs.take(order), bounds), start[order], end[order])
    cycles, level = _steps(begin, stop, np.diff(bounds)[place])
    return Occupancy(memory.name, whole * memory.granule, block * memory.granule, cycles, level * memory.granule)


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


def _lives(run: Ints, place: Ints, write: Bools, start: Times, end: Times) -> tuple[Times, Times, Ints]:
    """When data comes into a range, when it is read last, and the range; data that no instruction reads is left out."""
    changes = np.diff(place, prepend=-1) != 0
    heads = np.flatnonzero(write | changes)
    last = np.maximum.reduceat(np.where(write, -np.inf, end[run]), heads)
    following = np.append(start[run[heads[1:]]], np.inf)
    following[:-1][changes[heads[1:]]] = np.inf
    begin, stop = np.where(write[heads], start[run[heads]], 0.0), np.minimum(last, following)
    lives = stop > begin
    return begin[lives], stop[lives], place[heads][lives]


def _steps(begin: Times, stop: Times, size: Ints) -> tuple[Times, Times]:
    """Points at which the sum of the sizes that live changes; where there are too many, the largest sum of each stretch of time."""
    moments: Times = np.concatenate([np.zeros(1), begin, stop])
    times, where = np.unique(moments, return_inverse=True)
    change = np.concatenate([np.zeros(1), size, -size])
    level = np.cumsum(np.bincount(where, change, len(times))).astype(np.float64)
    if len(times) <= POINTS:
        return times, level
    stretch = np.minimum((times * (POINTS / times[-1])).astype(np.int64), POINTS - 1)
    heads = np.flatnonzero(np.diff(stretch, prepend=-1))
    return times[heads], np.maximum.reduceat(level, heads)
