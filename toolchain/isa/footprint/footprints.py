"""Reads and writes of every instruction, found without tensor data: runs of granules, traffic, and addresses that fail."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints, Program
from toolchain.spec.model import Machine, Memory, View

RANGE, BANK, INSTANCE, ALIGN, BUDGET = range(5)
"""Kinds of fault: address out of range, no such bank, no such instance, not on a granule, too many iterations to check."""

LONGEST = 1 << 24
"""Iterations of one access of one instruction that are still checked, runs of neighbours counting once."""


@dataclass(frozen=True)
class Runs:
    """Granules [start, stop) of a memory, all its instances end to end. memory: index into machine.memories."""

    instruction: Ints
    memory: Ints
    write: NDArray[np.bool_]
    start: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.instruction)

    def take(self, chosen: Ints | NDArray[np.bool_]) -> "Runs":
        return Runs(self.instruction[chosen], self.memory[chosen], self.write[chosen], self.start[chosen], self.stop[chosen])

    def reordered(self, order: Ints) -> "Runs":
        """Runs of the same instructions in another order, int64 [n], sorted by instruction again."""
        position = np.argsort(order)[self.instruction]
        chosen = np.argsort(position, kind="stable")
        return replace(self.take(chosen), instruction=position[chosen])


@dataclass(frozen=True)
class Faults:
    """Addresses that fail. access: by number in the instruction's semantics; low, high: the extreme index that fails.

    For BANK the bank, for INSTANCE 0, for ALIGN the index, for BUDGET how many iterations there are (at most 2**62).
    """

    instruction: Ints
    access: Ints
    kind: Ints
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.instruction)


@dataclass(frozen=True)
class Footprints:
    """runs: merged, sorted by (instruction, memory, write, start). feeds: the sources from which control memories are loaded.

    traffic_read, traffic_written: int64 [n, memories], bytes before merging, replicas included. A memory in `alike` has one
    instance a lockstep replica, all used alike: its runs are those of the first replica.
    """

    program: Program
    runs: Runs
    feeds: Runs
    faults: Faults
    traffic_read: Ints
    traffic_written: Ints
    alike: frozenset[str]

    @cached_property
    def first(self) -> Ints:
        """int64 [n + 1]: the runs of instruction i are first[i] to first[i + 1]."""
        counts = np.bincount(self.runs.instruction, minlength=len(self.program))
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def reordered(self, program: Program, order: Ints) -> "Footprints":
        """The same instructions in another order, int64 [n], in `program`. They see the same registers and control memories."""
        feeds, faults, at = self.feeds.reordered(order), self.faults, np.argsort(order)
        return Footprints(
            program, self.runs.reordered(order), feeds, join_faults([replace(faults, instruction=at[faults.instruction])]),
            self.traffic_read[order], self.traffic_written[order], self.alike,
        )  # fmt: skip


def granules(memory: Memory) -> int:
    """Granules of one instance."""
    return memory.bytes // memory.granule


def join_runs(parts: Sequence[Runs]) -> Runs:
    """All of them, one after the other."""
    empty = np.zeros(0, np.int64)
    whole = [Runs(empty, empty, np.zeros(0, np.bool_), empty, empty), *parts]
    return Runs(*(np.concatenate([getattr(p, name) for p in whole]) for name in ("instruction", "memory", "write", "start", "stop")))


def merge_runs(runs: Runs) -> Runs:
    """Sorted by (instruction, memory, write, start), overlapping and adjacent ones of one group joined."""
    if not len(runs):
        return runs
    group = (runs.instruction * (int(runs.memory.max()) + 1) + runs.memory) * 2 + runs.write
    if np.any(np.diff(group) < 0) or np.any((np.diff(group) == 0) & (np.diff(runs.start) < 0)):
        rank = np.lexsort((runs.start, group))
        runs, group = runs.take(rank), group[rank]
    heads, stop = _merged(np.diff(group, prepend=-1) != 0, runs.start, runs.stop)
    kept = runs.take(heads)
    return Runs(kept.instruction, kept.memory, kept.write, kept.start, stop)


def _merged(fresh: NDArray[np.bool_], start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Starts and stops of joined runs. fresh: bool [n], the first of each group; start ascends in a group."""
    span = int(stop.max()) + 2
    if span * int(fresh.sum()) >= 1 << 62:  # places too far apart to lay the groups end to end: their ranks are not
        places, ranks = np.unique(np.concatenate([start, stop]), return_inverse=True)
        heads, last = _merged(fresh, ranks[: len(start)], ranks[len(start) :])
        return heads, places[last]
    apart = np.cumsum(fresh) * span
    reach = np.maximum.accumulate(stop + apart)
    opens = fresh.copy()
    opens[1:] |= start[1:] + apart[1:] > reach[:-1]
    heads = np.flatnonzero(opens)
    return heads, np.append(reach[heads[1:] - 1], reach[-1]) - apart[heads]


def join_faults(parts: Sequence[Faults]) -> Faults:
    """One row for each (instruction, access, kind), sorted, with the extremes of all its parts."""
    empty = np.zeros(0, np.int64)
    whole = [Faults(empty, empty, empty, empty, empty), *parts]
    names = ("instruction", "access", "kind", "low", "high")
    columns = [np.concatenate([getattr(p, name) for p in whole]) for name in names]
    if not len(columns[0]):
        return whole[0]
    rank = np.lexsort((columns[2], columns[1], columns[0]))
    instruction, access, kind, low, high = (column[rank] for column in columns)
    heads = np.flatnonzero(np.diff(instruction, prepend=-1) | np.diff(access, prepend=-1) | np.diff(kind, prepend=-1))
    return Faults(instruction[heads], access[heads], kind[heads], np.minimum.reduceat(low, heads), np.maximum.reduceat(high, heads))


def element_runs(
    machine: Machine, view: View, instruction: Ints, write: bool, instance: Ints, index: list[Ints], count: Ints, access: int, spacing: Ints | int = 1
) -> tuple[Runs, Faults]:
    """Rows of `count` neighbouring elements from the lowest index on, `spacing` index steps apart; rows that fail are left out.

    instruction, instance, index, count: int64 [rows]. access: its number, for faults.
    """
    memory = machine.memory[view.memory]
    unit, size, granule = view.unit or memory.element.bytes, view.element.bytes, memory.granule
    bank, address = (index[0], index[1]) if len(index) == 2 else (np.zeros_like(index[0]), index[0])
    known = (bank >= 0) & (bank < memory.banks)
    depth = np.array(memory.depths)[np.where(known, bank, 0)]
    base = np.cumsum([0, *memory.depths[:-1]])[np.where(known, bank, 0)] * memory.element.bytes
    room, offset, length = depth * memory.element.bytes, address * unit, count * size
    top, last = (room - size) // unit, address + (count - 1) * spacing
    outside = known & ((address < 0) | (last > top)) if memory.kind != "ring" else np.zeros_like(known)
    astray = known & ~outside & ((offset % granule != 0) | (size % granule != 0))
    low = np.where(address < 0, address, address + np.maximum(-((address - top - 1) // spacing), 0) * spacing)
    high = np.where(last > top, last, last - np.maximum(last // spacing + 1, 0) * spacing)
    faults = [
        _faults(instruction, access, BANK, bank, bank, ~known),
        _faults(instruction, access, RANGE, low, high, outside),
        _faults(instruction, access, ALIGN, address, last, astray),
    ]
    good = known & ~outside & ~astray
    number = machine.memories.index(memory)
    begin = np.where(memory.kind == "ring", offset % room, offset)
    end = begin + np.minimum(length, room) if memory.kind == "ring" else begin + length
    start = instance * memory.bytes + base
    parts = [_runs(instruction, number, write, start + begin, start + np.minimum(end, room), granule, good)]
    if memory.kind == "ring":
        parts.append(_runs(instruction, number, write, start, start + end - room, granule, good & (end > room)))
    return join_runs(parts), join_faults(faults)


def _runs(instruction: Ints, memory: int, write: bool, start: Ints, stop: Ints, granule: int, chosen: np.typing.NDArray[np.bool_]) -> Runs:
    found = Runs(instruction, np.full(len(instruction), memory), np.full(len(instruction), write), start // granule, -(-stop // granule))
    return found if chosen.all() else found.take(chosen)


def _faults(instruction: Ints, access: int, kind: int, low: Ints, high: Ints, chosen: np.typing.NDArray[np.bool_]) -> Faults:
    count = int(chosen.sum())
    return Faults(instruction[chosen], np.full(count, access), np.full(count, kind), low[chosen], high[chosen])
