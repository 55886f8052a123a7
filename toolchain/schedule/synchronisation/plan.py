"""The synchronised program while it grows: instructions in order, those that each knows to be done, the tokens chosen so far, and the times
that follow from them."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from toolchain.isa.program import Ints
from toolchain.isa.sync_tokens import POST, WAIT, Channel, SyncEncoding
from toolchain.schedule.synchronisation.events import EventPool
from toolchain.spec.model import Machine, Unit
from toolchain.timing.cost import Costs

ADDED = -1
"""The source of an instruction that the original program does not have."""


Row = list[int] | Ints
"""By queue, how many of its instructions are certainly done. Of the many queues of several streams numpy finds the larger numbers sooner."""


def latest(one: Row, other: Row) -> Row:
    """The larger number of each queue."""
    return np.maximum(one, other) if isinstance(one, np.ndarray) else list(map(max, one, other))


@dataclass
class Link:
    """Tokens of one channel: the k-th post, by instruction posts[k], is taken by takes[k]. Both ascend, as tokens are alike:
    first posted, first taken. Of all_prior nothing is posted, posts[k] is the last instruction that is waited for."""

    channel: Channel
    posts: list[int] = field(default_factory=list[int])
    takes: list[int] = field(default_factory=list[int])

    def add(self, poster: int, taker: int) -> None:
        self.posts.append(poster)
        self.takes.append(taker)


@dataclass(frozen=True)
class Meeting:
    """Tokens of several streams that one wait takes from an event of its stream."""

    event: int
    taker: int
    posters: tuple[int, ...]


def ending_kind(machine: Machine) -> int:
    """The kind of instruction that ends a stream; -1 where any may."""
    names = [i.name for i in machine.instructions]
    return names.index(machine.program.ends) if machine.program.ends else -1


class Plan:
    """Instructions of one stream, or of several in an order in which they could run alone; new ones come last. source: their index in the original
    program, or ADDED. unit: the queue of each, its unit where there is one stream, else stream * units + unit.

    pool: of the events by which streams meet. held: those for which the interlock holds each instruction. rows[i][u]: how many instructions of
    queue u are certainly done before i starts (a lower bound, where i was told more later). place: where an instruction stands in members[unit].
    barrier: the last fence that was added, which everything after it is held for. meetings: the tokens that are left out of `links` for one wait to
    take.
    """

    def __init__(self, machine: Machine, encoding: SyncEncoding, streams: int = 1, pool: EventPool | None = None) -> None:
        self.machine, self.encoding, self.streams, self.pool = machine, encoding, streams, pool
        names, kinds = [u.name for u in machine.units], [i.name for i in machine.instructions]
        self.nops: Mapping[int, int] = {names.index(n.unit): kinds.index(n.instruction) for n in machine.nops}
        self.source: list[int] = []
        self.kind: list[int] = []
        self.unit: list[int] = []
        self.place: list[int] = []
        self.held: list[tuple[int, ...]] = []
        self.rows: list[Row] = []
        self.members: list[list[int]] = [[] for _ in range(streams * len(names))]
        self.overlaps = [unit.overlaps for unit in machine.units] * streams
        self.barrier: int | None = None
        self.links: dict[tuple[int, int], Link] = {}
        self.meetings: list[Meeting] = []
        for first in range(0, len(self.members), len(names)):
            for channel in encoding.channels.values():
                self._add(replace(channel, source=first + channel.source, target=first + channel.target))

    def its(self, queue: int) -> Unit:
        """The unit of a queue."""
        return self.machine.units[queue % len(self.machine.units)]

    def label(self, queue: int) -> str:
        """How messages name a queue."""
        where = f" of stream {queue // len(self.machine.units)}" if self.streams > 1 else ""
        return f"unit '{self.its(queue).name}'{where}"

    def _add(self, channel: Channel) -> Link:
        return self.links.setdefault((channel.source, channel.target), Link(channel))

    def ring(self, streams: Sequence[int]) -> None:
        """Links each of these streams with the next one."""
        for channel in self.pool.ring(streams) if self.pool else ():
            self._add(channel)

    def link(self, source: int, target: int) -> Link | None:
        """The tokens from one queue to another; a channel that the machine's events still have room for is opened."""
        found = self.links.get((source, target))
        if found is None and self.pool and (channel := self.pool.open(source, target)):
            found = self._add(channel)
        return found

    def append(self, source: int, kind: int, unit: int, row: Row, held: tuple[int, ...] = ()) -> int:
        """Adds an instruction that starts knowing `row`. held: those for which the interlock holds it."""
        index = len(self.source)
        self.source.append(source)
        self.kind.append(kind)
        self.unit.append(unit)
        self.place.append(len(self.members[unit]))
        self.held.append(held if self.barrier is None else (*held, self.barrier))
        self.rows.append(row)
        self.members[unit].append(index)
        return index

    def next_row(self, unit: int) -> Row:
        """Knowledge of a unit's next instruction: that of the one before it and of the last fence."""
        if self.members[unit]:
            last = self.members[unit][-1]
            row = self.rows[last].copy()
            if not self.overlaps[unit]:
                row[unit] = self.place[last] + 1
        else:
            row = self._row([0] * len(self.members))
        return row if self.barrier is None else self.learn(row, self.barrier)

    def reorder(self, order: Sequence[int]) -> None:
        """Puts the instructions in another order, by their present indices, in which those of each queue keep theirs."""
        at = [0] * len(order)
        for index, old in enumerate(order):
            at[old] = index
        for name in ("source", "kind", "unit", "place", "rows"):
            column = getattr(self, name)
            column[:] = [column[old] for old in order]
        self.held[:] = [tuple(at[other] for other in self.held[old]) for old in order]
        for members in self.members:
            members[:] = [at[member] for member in members]
        for link in self.links.values():
            link.posts[:], link.takes[:] = [at[poster] for poster in link.posts], [at[taker] for taker in link.takes]
        self.barrier = None if self.barrier is None else at[self.barrier]

    def fence(self) -> bool:
        """Adds an instruction that comes after everything before it and before everything after it; False where the machine names none."""
        fences = self.machine.interlock.fences if self.machine.interlock and self.streams == 1 else ()
        found = next(((unit, kind) for unit, kind in self.nops.items() if self.machine.instructions[kind].name in fences), None)
        if found is None:
            return False
        known, last = self._row([len(members) for members in self.members]), tuple(members[-1] for members in self.members if members)
        self.barrier = self.append(ADDED, found[1], found[0], known, last)
        return True

    def _row(self, numbers: list[int]) -> Row:
        return np.array(numbers, np.int64) if self.streams > 1 else numbers

    def learn(self, row: Row, poster: int) -> Row:
        """The row after a token of `poster` arrives."""
        row = latest(row, self.rows[poster])
        unit, done = self.unit[poster], self.place[poster] + 1
        if row[unit] < done:
            row[unit] = done
        return row

    def teach(self, index: int, poster: int) -> None:
        """An instruction that is there already now waits for `poster`: it and those behind it know more."""
        for member in self.members[self.unit[index]][self.place[index] :]:
            row = self.learn(self.rows[member], poster)
            if np.array_equal(row, self.rows[member]):
                return
            self.rows[member] = row

    def knows(self, index: int, other: int) -> bool:
        """Whether `other` is certainly done before `index` starts."""
        return bool(self.rows[index][self.unit[other]] > self.place[other])

    def first_to_know(self, unit: int, other: int) -> int | None:
        """The first instruction of a unit that starts when `other` is done."""
        members, about, wanted = self.members[unit], self.unit[other], self.place[other] + 1
        at = bisect_left(members, wanted, key=lambda i: self.rows[i][about])
        return members[at] if at < len(members) else None

    def can_wait(self, index: int, channel: Channel) -> bool:
        return self.carries(self.kind[index], self.unit[index], WAIT, channel)

    def can_post(self, index: int, channel: Channel) -> bool:
        return self.carries(self.kind[index], self.unit[index], POST, channel)

    def carries(self, kind: int, queue: int, action: str, channel: Channel) -> bool:
        """Whether such an instruction of a queue can wait on the channel, or post to it."""
        return self.encoding.carries(kind, queue % len(self.machine.units), action, channel)

    def nop(self, unit: int, action: str, channel: Channel) -> int | None:
        """The kind of instruction with which a unit can pass a token on, if it has one: one that does nothing, or one that moves events."""
        kind = self.nops.get(unit % len(self.machine.units))
        if kind is not None and self.carries(kind, unit, action, channel):
            return kind
        movers = self.pool.events.kinds if self.pool else frozenset[int]()
        return max(movers) if movers and all(self.carries(mover, unit, action, channel) for mover in movers) else None


@dataclass(frozen=True)
class Durations:
    """Cycles by instruction of the program that is planned. held: that it keeps its unit. latency: from then until its tokens show."""

    held: Sequence[int]
    latency: Sequence[int]


@dataclass(frozen=True)
class PlanTimes:
    """Cycles by instruction of the plan. start: when its unit is taken. shown: when its tokens show."""

    start: Sequence[int]
    shown: Sequence[int]


def durations(costs: Costs) -> Durations:
    """Each instruction as long as it takes alone."""
    return Durations((costs.setup + costs.alone).tolist(), costs.latency.tolist())


def plan_times(plan: Plan, known: Durations) -> PlanTimes:
    """One pass in the order of the plan, in which every token goes from an earlier instruction to a later one; one that was added takes a cycle."""
    waits: list[Sequence[int]] = [*plan.held]
    for link in plan.links.values():
        for poster, taker in zip(link.posts, link.takes, strict=True):
            waits[taker] = (*waits[taker], poster)
    free, start, shown = [0] * len(plan.members), list[int](), list[int]()
    for source, unit, others in zip(plan.source, plan.unit, waits, strict=True):
        begin = free[unit]
        for other in others:
            begin = max(begin, shown[other])
        held, latency = (1, 0) if source == ADDED else (known.held[source], known.latency[source])
        free[unit] = begin + held
        start.append(begin)
        shown.append(free[unit] + latency)
    return PlanTimes(start, shown)
