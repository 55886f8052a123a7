"""List scheduling: the order of work in each unit, by the time when it can start, and the order in which a stream holds its instructions.

A unit takes its instructions in order. So where a schedule has one operation after the other, a convolution's first rows are loaded behind the last
rows of the pool before it, and stored behind them, although they were ready long ago. Here such a unit takes, whenever it is free, some of its work
that is ready: that which a unit that keeps its order needs first, or else the first in the program.

Hazards are found in the program's order, and another order is as good if every instruction stays behind all that it conflicts with.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np

from toolchain.analysis.dependences import Needs, accesses_by_memory, find_conflicts, no_needs, sweep
from toolchain.isa.footprint.footprints import Runs
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.sync_tokens import sync_tokens
from toolchain.schedule.synchronisation.plan import Durations, Plan, ending_kind, plan_times
from toolchain.spec.model import Machine


def is_limited(machine: Machine) -> bool:
    """Whether a counter or a queue holds only so much, so that time says which tokens or instructions go into it and when."""
    return any(counter.depth for counter in machine.counters) or any(unit.depth for unit in machine.units)


def is_reordered(machine: Machine) -> bool:
    """Whether a program's one stream stands in the order in which its instructions start."""
    return machine.streams == 1 and is_limited(machine) and not machine.interlock


def is_free(program: Program) -> bool:
    """Whether units may take their work in another order than the program's: it has one stream, and the machine does not go by the order there."""
    return not program.machine.interlock and len(np.unique(program.stream)) == 1


def put_in_issue_order(plan: Plan, known: Durations) -> None:
    """Instructions of a unit keep their order, and so do a poster and its taker; the end of a stream stays last.

    A stream is fetched in order, and stops at an instruction whose queue is full: behind it stand others whose units are idle. Where a machine goes
    by the order of the stream, as an interlock does, it stays.
    """
    if not is_reordered(plan.machine):
        return
    start, last = plan_times(plan, known).start, ending_kind(plan.machine)
    plan.reorder(sorted(range(len(start)), key=lambda index: (plan.kind[index] == last, start[index], index)))


@dataclass(frozen=True)
class Work:
    """A program's instructions as list scheduling takes them. free: units whose work may change its order. bundles: instructions that stay together.
    owner: int64 [n], the bundle of each instruction. unit: of each bundle. after: by bundle, those that must follow it; sorted."""

    program: Program
    free: frozenset[int]
    bundles: Sequence[Sequence[int]]
    owner: Ints
    unit: Sequence[int]
    after: Sequence[Sequence[int]]


def find_work(program: Program, runs: Runs, provenance: Provenance) -> Work:
    """runs: the footprints of the program in its own order, which has no tokens and one stream."""
    free = free_units(program, runs, provenance)
    bundles = _bundles(program, provenance, free) if free else [[index] for index in range(len(program))]
    owner = _owner(bundles, len(program))
    unit: list[int] = program.unit[[bundle[0] for bundle in bundles]].tolist()
    pairs = _pairs(program, runs, provenance, free) if free else (np.empty(0, np.int64),) * 2
    return Work(program, free, bundles, owner, unit, _followers(owner, len(bundles), *pairs))


def list_order(work: Work, taken: Durations, turns: Needs | None = None) -> Ints:
    """int64 [n], indices of instructions in the order in which they start, where that is quicker; else their own. taken: cycles of each instruction.
    turns: whom else instructions wait for, of units that keep their order."""
    count = len(work.program)
    if not work.free:
        return np.arange(count, dtype=np.int64)
    if turns is not None:
        own, more = _followers(work.owner, len(work.bundles), *_named(turns)), work.after
        work = replace(work, after=[sorted({*a, *b}) for a, b in zip(own, more, strict=True)])
    given, moved = (_Clock(work, taken, rank) for rank in (None, _urgency(work)))
    if not given.runs() or not moved.runs() or moved.end >= given.end:
        return np.arange(count, dtype=np.int64)
    start = np.array(moved.start, np.int64)[work.owner]
    return np.lexsort((np.arange(count), start, work.program.kind == ending_kind(work.program.machine)))


def _urgency(work: Work) -> list[int]:
    """By bundle, the first bundle of a unit that keeps its order which needs it, through others or not; those that none needs come last."""
    found = [len(work.bundles)] * len(work.bundles)
    for number in sorted(range(len(found)), key=lambda number: -work.bundles[number][-1]):
        ordered = work.unit[number] not in work.free
        found[number] = number if ordered else min((found[other] for other in work.after[number]), default=len(found))
    return found


def free_units(program: Program, runs: Runs, provenance: Provenance) -> frozenset[int]:
    """Units whose work may change its order: registers that they read serve one reader each, so that an instruction and those that set its registers
    move as one. None of a program with events, which are fences for the instructions before and behind them. Where queues or counters are short,
    units that reach DRAM keep their order too: they run ahead until those are full, and hold up the work behind them."""
    machine, outside = program.machine, set[int]()
    if _has_events(program):
        return frozenset()
    if is_limited(machine):
        dram = np.array([memory.kind == "dram" for memory in machine.memories])
        outside |= set(program.unit[runs.instruction[dram[runs.memory]]].tolist())
    for memory in machine.memories:
        if memory.latches and not memory.consumed:
            outside |= set(program.unit[provenance.reads(memory.name).instruction].tolist())
            outside |= set(program.unit[provenance.latches(memory.name).instruction].tolist())
    return frozenset(set(program.unit.tolist()) - outside)


def _has_events(program: Program) -> bool:
    """Whether any instruction sends or awaits a signal that no unit's counter stands for."""
    tokens = sync_tokens(program)
    counters: list[int] = np.unique(np.concatenate([tokens.posts.counter, tokens.waits.counter])).tolist()
    moved = {tokens.counters[counter] for counter in counters}
    return any(counter.name in moved for counter in program.machine.counters if not counter.source)


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


def _pairs(program: Program, runs: Runs, provenance: Provenance, free: frozenset[int]) -> tuple[Ints, Ints]:
    """(before, after) of all that must keep their order through everything but the registers of one reader each; of a unit that keeps its order,
    the latest instruction alone."""
    needs, consumed = no_needs(program), _consumed(program.machine)
    accesses = [own for memory, own in accesses_by_memory(program, runs, provenance) if not consumed[memory]]
    for own in accesses:
        sweep(own, program.unit, needs)
    needs[:, sorted(free)] = -1
    (before, after), (first, second) = _named(needs), find_conflicts(accesses, program.unit, free)
    return np.concatenate([before, first]), np.concatenate([after, second])


def _named(needs: Needs) -> tuple[Ints, Ints]:
    """(before, after) of all needs."""
    who, column = np.nonzero(needs >= 0)
    return needs[who, column].astype(np.int64), who


def _followers(owner: Ints, count: int, before: Ints, after: Ints) -> list[list[int]]:
    """By bundle, the bundles of all that come after its instructions."""
    one, other = owner[before], owner[after]
    first, second = np.divmod(np.unique((one * count + other)[one != other]), max(count, 1))
    bounds: list[int] = np.searchsorted(first, np.arange(count + 1)).tolist()
    every: list[int] = second.tolist()
    return [every[a:b] for a, b in itertools.pairwise(bounds)]


@dataclass
class _Queue:
    """A unit. members: its bundles in the program's order. at: the cycle in which it is free. done: how many of the first are scheduled, where it
    keeps their order. ready: (cycle, rank, bundle) of those that need nothing more; open: (rank, bundle) of those that are ready by then."""

    members: list[int] = field(default_factory=list[int])
    at: int = 0
    done: int = 0
    ready: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    open: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


class _Clock:
    """Runs all units, each at its own time. rank: by bundle, which goes first in a unit whose order is free; None: all units keep their order.
    start: the cycle in which each bundle starts."""

    def __init__(self, work: Work, taken: Durations, rank: Sequence[int] | None) -> None:
        self.unit, self.after, self.rank = work.unit, work.after, rank
        self.free = frozenset[int]() if rank is None else work.free
        self.queues = [_Queue() for _ in work.program.machine.units]
        self.held = [sum(taken.held[index] for index in bundle) for bundle in work.bundles]
        self.latency = [max(taken.latency[index] for index in bundle) for bundle in work.bundles]
        count = len(work.bundles)
        self.start, self.since, self.missing = [-1] * count, [0] * count, [0] * count
        for number, unit in enumerate(self.unit):
            self.queues[unit].members.append(number)
            for other in self.after[number]:
                self.missing[other] += 1
        for number, missing in enumerate(self.missing):
            if not missing:
                self._offer(number)

    @property
    def end(self) -> int:
        """When the last result is there, in cycles."""
        return max((start + held + latency for start, held, latency in zip(self.start, self.held, self.latency, strict=True)), default=0)

    def runs(self) -> bool:
        """Whether everything gets its turn: always the unit that can start first. Bundles may wait for each other where a unit that keeps its order
        works between their instructions."""
        for _ in self.start:
            ready = [found for unit in range(len(self.queues)) if (found := self._next(unit))]
            if not ready:
                return False
            self._begin(*min(ready))
        return True

    def _offer(self, number: int) -> None:
        if self.rank is not None and self.unit[number] in self.free:
            heappush(self.queues[self.unit[number]].ready, (self.since[number], self.rank[number], number))

    def _next(self, unit: int) -> tuple[int, int, int] | None:
        """When this unit starts which of its bundles: of those that are ready by then, the one that goes first."""
        queue = self.queues[unit]
        if unit not in self.free:
            number = queue.members[queue.done] if queue.done < len(queue.members) else -1
            return (max(queue.at, self.since[number]), unit, number) if number >= 0 and not self.missing[number] else None
        while queue.ready and queue.ready[0][0] <= queue.at:
            heappush(queue.open, heappop(queue.ready)[1:])
        if queue.open:
            return queue.at, unit, queue.open[0][1]
        return (queue.ready[0][0], unit, queue.ready[0][2]) if queue.ready else None

    def _begin(self, at: int, unit: int, number: int) -> None:
        queue = self.queues[unit]
        if unit not in self.free:
            queue.done += 1
        elif queue.open:
            heappop(queue.open)
        else:
            heappop(queue.ready)
        self.start[number] = at
        queue.at = at + self.held[number]
        shown = queue.at + self.latency[number]
        for other in self.after[number]:
            self.since[other] = max(self.since[other], shown)
            self.missing[other] -= 1
            if not self.missing[other]:
                self._offer(other)
