"""List scheduling: the order of work in units that only move data between memories on chip, by the time when it can start.

A unit takes its instructions in order. So where a schedule has one operation after the other, an addition's first rows wait behind the last copies of
the convolution before it, although they were ready long ago. Here such a unit takes, whenever it is free, the first of its work that is ready.

Hazards are found in the program's order, and another order is as good if every instruction stays behind all that it conflicts with. Dependences
name only the last instruction of each unit, so each counts as a dependence on all earlier ones of that unit too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from toolchain.analysis.dependences import Needs, accesses_by_memory, no_needs, sweep
from toolchain.isa.footprint.footprints import Runs
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.schedule.synchronisation.plan import ending_kind
from toolchain.schedule.synchronisation.plan_clock import Durations
from toolchain.spec.model import Machine


def list_order(program: Program, runs: Runs, provenance: Provenance, taken: Durations, turns: Needs | None = None) -> Ints:
    """int64 [n], indices of instructions in the order in which they start, where that is quicker; else their own. runs: the footprints of the program
    in its own order, which has no tokens and one stream. taken: cycles of each instruction. turns: whom else instructions wait for."""
    free = free_units(program, runs, provenance)
    if not free:
        return np.arange(len(program), dtype=np.int64)
    bundles = _bundles(program, provenance, free)
    needs = _needs(program, runs, provenance)
    needs = needs if turns is None else np.maximum(needs, turns)
    given, moved = (_Clock(program, bundles, units, taken, needs).run() for units in (frozenset[int](), free))
    if moved.end >= given.end:
        return np.arange(len(program), dtype=np.int64)
    start = np.array(moved.start, np.int64)[_owner(bundles, len(program))]
    return np.lexsort((np.arange(len(program)), start, program.kind == ending_kind(program.machine)))


def free_units(program: Program, runs: Runs, provenance: Provenance) -> frozenset[int]:
    """Units whose work may change its order: they reach no DRAM, and registers that they read serve one reader each, so that an instruction and those
    that set its registers move as one. None of a machine with events, which are fences for what stands before and behind them."""
    machine, outside = program.machine, set[int]()
    if not all(counter.source for counter in machine.counters):
        return frozenset()
    dram = np.array([memory.kind == "dram" for memory in machine.memories])
    outside |= set(program.unit[runs.instruction[dram[runs.memory]]].tolist())
    for memory in machine.memories:
        if memory.latches and not memory.consumed:
            outside |= set(program.unit[provenance.reads(memory.name).instruction].tolist())
            outside |= set(program.unit[provenance.latches(memory.name).instruction].tolist())
    return frozenset(set(program.unit.tolist()) - outside)


def _consumed(machine: Machine) -> list[bool]:
    """By memory, whether it is a register whose values serve one reader each."""
    return [bool(memory.latches and memory.consumed) for memory in machine.memories]


def _bundles(program: Program, provenance: Provenance, free: frozenset[int]) -> list[list[int]]:
    """Instructions that stay together, in the program's order: from the first that sets a register of a reader to the reader, within their unit."""
    first = np.arange(len(program))
    for memory in program.machine.memories:
        if memory.latches and memory.consumed:
            reads = provenance.reads(memory.name)
            known = reads.source >= 0
            np.minimum.at(first, reads.instruction[known], reads.source[known])
    opening: list[int] = first.tolist()
    found: list[list[int]] = []
    for unit in np.unique(program.unit).tolist():
        own: list[list[int]] = []
        for index in np.flatnonzero(program.unit == unit).tolist():
            own.append([index])
            while unit in free and len(own) > 1 and own[-1][0] > opening[index] and own[-2][-1] >= opening[index]:
                own[-2:] = [own[-2] + own[-1]]
        found += own
    return sorted(found)


def _owner(bundles: Sequence[Sequence[int]], count: int) -> Ints:
    """int64 [n]: the bundle of each instruction."""
    owner = np.empty(count, np.int64)
    for number, bundle in enumerate(bundles):
        owner[list(bundle)] = number
    return owner


def _needs(program: Program, runs: Runs, provenance: Provenance) -> Needs:
    """Dependences through everything but the registers of one reader each."""
    needs, consumed = no_needs(program), _consumed(program.machine)
    for memory, accesses in accesses_by_memory(program, runs, provenance):
        if not consumed[memory]:
            sweep(accesses, program.unit, needs)
    return needs


@dataclass
class _Queue:
    """A unit. members: its bundles in the program's order. at: the cycle in which it is free. done: how many of the first are all scheduled; shown:
    when their results are there. waiting: by place in `members`, who needs all up to there. ready: (cycle, place) of bundles that need nothing more;
    open: places of those that are ready when the unit is free."""

    free_order: bool
    members: list[int] = field(default_factory=list[int])
    at: int = 0
    done: int = 0
    shown: list[int] = field(default_factory=list[int])
    waiting: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    ready: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    open: list[int] = field(default_factory=list[int])


class _Clock:
    """Runs all units, each at its own time. start: the cycle in which each bundle starts."""

    def __init__(self, program: Program, bundles: Sequence[Sequence[int]], free: frozenset[int], taken: Durations, needs: Needs) -> None:
        self.unit: list[int] = program.unit[[bundle[0] for bundle in bundles]].tolist()
        self.queues = [_Queue(unit in free) for unit in range(len(program.machine.units))]
        self.held = [sum(taken.held[index] for index in bundle) for bundle in bundles]
        self.latency = [max(taken.latency[index] for index in bundle) for bundle in bundles]
        self.place: list[int] = []
        for number, unit in enumerate(self.unit):
            self.place.append(len(self.queues[unit].members))
            self.queues[unit].members.append(number)
        self.start, self.since, self.missing = [-1] * len(bundles), [0] * len(bundles), [0] * len(bundles)
        owner: list[int] = _owner(bundles, len(program)).tolist()
        for number, bundle in enumerate(bundles):
            for need in needs[list(bundle)].max(axis=0).tolist():
                if need >= 0 and owner[need] != number:
                    self.missing[number] += 1
                    self.queues[self.unit[owner[need]]].waiting.setdefault(self.place[owner[need]], []).append(number)
        for number, missing in enumerate(self.missing):
            if not missing:
                self._offer(number)

    @property
    def end(self) -> int:
        """When the last result is there, in cycles."""
        return max((start + held + latency for start, held, latency in zip(self.start, self.held, self.latency, strict=True)), default=0)

    def run(self) -> "_Clock":
        """Always the unit that can start first."""
        for _ in self.start:
            at, unit, place = min(found for unit in range(len(self.queues)) if (found := self._next(unit)))
            self._begin(at, unit, place)
        return self

    def _offer(self, number: int) -> None:
        heappush(self.queues[self.unit[number]].ready, (self.since[number], self.place[number]))

    def _next(self, unit: int) -> tuple[int, int, int] | None:
        """When this unit starts which of its bundles: the first in the program's order of those that are ready by then."""
        queue = self.queues[unit]
        if not queue.free_order:
            number = queue.members[queue.done] if queue.done < len(queue.members) else -1
            return (max(queue.at, self.since[number]), unit, queue.done) if number >= 0 and not self.missing[number] else None
        while queue.ready and queue.ready[0][0] <= queue.at:
            heappush(queue.open, heappop(queue.ready)[1])
        if queue.open:
            return queue.at, unit, queue.open[0]
        return (queue.ready[0][0], unit, queue.ready[0][1]) if queue.ready else None

    def _begin(self, at: int, unit: int, place: int) -> None:
        queue = self.queues[unit]
        number = queue.members[place]
        if queue.free_order and queue.open:
            heappop(queue.open)
        elif queue.free_order:
            heappop(queue.ready)
        self.start[number] = at
        queue.at = at + self.held[number]
        while queue.done < len(queue.members) and self.start[first := queue.members[queue.done]] >= 0:
            shown = self.start[first] + self.held[first] + self.latency[first]
            queue.shown.append(max(shown, queue.shown[-1] if queue.shown else 0))
            for waiter in queue.waiting.pop(queue.done, ()):
                self.since[waiter] = max(self.since[waiter], queue.shown[-1])
                self.missing[waiter] -= 1
                if not self.missing[waiter]:
                    self._offer(waiter)
            queue.done += 1
