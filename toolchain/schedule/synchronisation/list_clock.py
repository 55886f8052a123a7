"""The clock of list scheduling: every unit takes its bundles one by one, each at its own time, until all are done. In C where there is a compiler,
else in Python, with the same result."""

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints, Program
from toolchain.schedule.synchronisation.plan import Durations
from toolchain.spec.compile import load_checker


@dataclass(frozen=True)
class Followers:
    """By bundle, the bundles that must come after it, sorted: int64 other[first[bundle] : first[bundle + 1]]."""

    first: Ints
    other: Ints

    def lists(self) -> list[list[int]]:
        bounds: list[int] = self.first.tolist()
        every: list[int] = self.other.tolist()
        return [every[start:stop] for start, stop in itertools.pairwise(bounds)]


def followers_of(one: Ints, other: Ints, count: int) -> Followers:
    """one, other: int64 [pairs], of `count` bundles, in any order and number."""
    first, second = np.divmod(np.unique(one * count + other), max(count, 1))
    return Followers(np.searchsorted(first, np.arange(count + 1)), second)


@dataclass(frozen=True)
class Work:
    """A program's instructions as list scheduling takes them. free: units whose work may change its order. bundles: instructions that stay together.
    owner: int64 [n], the bundle of each instruction. unit: int64 [bundles]. after: those that must follow each bundle."""

    program: Program
    free: frozenset[int]
    bundles: Sequence[Sequence[int]]
    owner: Ints
    unit: Ints
    after: Followers

    def behind(self, more: Followers) -> "Work":
        """The same where these follow too."""
        count = len(self.bundles)
        one = [np.repeat(np.arange(count), np.diff(each.first)) for each in (self.after, more)]
        return replace(self, after=followers_of(np.concatenate(one), np.concatenate([self.after.other, more.other]), count))

    @property
    def moves(self) -> NDArray[np.bool_]:
        """bool [units]: whose order is free."""
        return np.isin(np.arange(len(self.program.machine.units)), sorted(self.free))

    @property
    def last_first(self) -> Ints:
        """int64 [bundles], ordered by their last instructions, that of the program's end first."""
        return np.argsort(-np.array([bundle[-1] for bundle in self.bundles], np.int64), kind="stable")


@dataclass(frozen=True)
class Run:
    """start: int64 [bundles], cycles. end: when the last result is there."""

    start: Ints
    end: int


def urgency(work: Work) -> Ints:
    """int64 [bundles], the first bundle of a unit that keeps its order which needs it, through others or not; those that none needs come last."""
    library, count = load_checker("list_schedule"), len(work.bundles)
    if library is None:
        return np.array(_urgency(work), np.int64)
    found = np.full(count, count, np.int64)
    given = [*_contiguous(work.last_first, work.unit), work.moves.astype(np.uint8), *_contiguous(work.after.first, work.after.other), found]
    library.find_urgency(ctypes.c_int64(count), *(ctypes.c_void_p(part.ctypes.data) for part in given))
    return found


def _urgency(work: Work) -> list[int]:
    count, after, unit = len(work.bundles), work.after.lists(), _listed(work.unit)
    found = [count] * count
    for number in _listed(work.last_first):
        ordered = unit[number] not in work.free
        found[number] = number if ordered else min((found[other] for other in after[number]), default=count)
    return found


def run_clock(work: Work, taken: Durations, rank: Ints | None) -> Run | None:
    """None where bundles wait for each other, which may be where a unit that keeps its order works between their instructions. rank: int64 [bundles],
    which goes first in a unit whose order is free; None: all units keep their order."""
    held, latency = np.zeros(len(work.bundles), np.int64), np.zeros(len(work.bundles), np.int64)
    np.add.at(held, work.owner, taken.held)
    np.maximum.at(latency, work.owner, taken.latency)
    library = load_checker("list_schedule")
    if library is not None:
        return _run_native(library, work, (held, latency), rank)
    clock = _Clock(work, (_listed(held), _listed(latency)), None if rank is None else _listed(rank))
    return Run(np.array(clock.start, np.int64), clock.end) if clock.runs() else None


class _Native(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("bundles", "units")),
        *((name, ctypes.c_void_p) for name in ("unit", "first", "members", "start_after", "after", "held", "latency", "rank", "free")),
        *((name, ctypes.c_void_p) for name in ("missing", "since", "start", "at", "done", "ready_count", "open_count", "ready", "open")),
        ("end", ctypes.c_int64),
    )


def _run_native(library: ctypes.CDLL, work: Work, times: tuple[Ints, Ints], rank: Ints | None) -> Run | None:
    count, units = len(work.bundles), len(work.program.machine.units)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(work.unit, minlength=units))])
    free = np.zeros(units, np.uint8) if rank is None else work.moves.astype(np.uint8)
    given = _contiguous(work.unit, first, np.argsort(work.unit, kind="stable"), work.after.first, work.after.other, *times)
    given += [np.zeros(count, np.int64) if rank is None else rank, free, np.bincount(work.after.other, minlength=count).astype(np.int64)]
    start = np.full(count, -1, np.int64)
    own = [np.zeros(count, np.int64), start, *(np.zeros(units, np.int64) for _ in range(4)), *(np.empty((count, 3), np.int64) for _ in range(2))]
    task = _Native(count, units, *(part.ctypes.data for part in (*given, *own)))
    return Run(start, task.end) if library.run_clock(ctypes.byref(task)) else None


def _contiguous(*columns: Ints) -> list[NDArray[np.int64] | NDArray[np.uint8]]:
    return [np.ascontiguousarray(column, np.int64) for column in columns]


def _listed(column: Ints) -> list[int]:
    return column.tolist()


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
    """Runs all units, each at its own time. times: of each bundle, how long it keeps its unit and how long its result then takes to show. start: the
    cycle in which each bundle starts."""

    def __init__(self, work: Work, times: tuple[Sequence[int], Sequence[int]], rank: Sequence[int] | None) -> None:
        self.unit, self.after, self.rank = _listed(work.unit), work.after.lists(), rank
        self.free = frozenset[int]() if rank is None else work.free
        self.queues = [_Queue() for _ in work.program.machine.units]
        self.held, self.latency = times
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
        """Whether everything gets its turn: always the unit that can start first."""
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
