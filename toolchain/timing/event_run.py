"""The time of every instruction and the cause of its waiting; for systems without a compiler the event simulation in Python, step by step as
toolchain/templates/checker/events.c."""

import heapq
import itertools
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.token_run import QueueLists, moves_of, pairs_of
from toolchain.isa.program import Ints, QueueTable
from toolchain.isa.sync_tokens import ALL_PRIOR, SyncTokens
from toolchain.timing.cost import Costs

Times = NDArray[np.float64]


NOT_FETCHED = -2
"""In `counter`: the instruction came late, because an earlier one did not fit into its queue until `producer` started."""


@dataclass(frozen=True)
class SimulationResult:
    """The output of the event simulation; times in cycles, float64 [n]; indices int64 [n], -1 for none.

    start, end: when the unit was taken and when the work was done. released: when the unit was free again, later than end
    where a full counter held it, or a coupled unit that still fed it. freed: when the unit became free for this instruction.
    order: instructions as they started; shorter than n after a deadlock.
    counter, producer: the last counter that this instruction waited for while its unit was idle, and whose token came.
    slowest: the resource instance whose transfer ended last, -1 where the ports of banks took longer. room_counter, room_by: the full counter that
    held the unit, and the instruction that made room.
    """

    start: Times
    end: Times
    released: Times
    freed: Times
    order: Ints
    counter: Ints
    producer: Ints
    slowest: Ints
    room_counter: Ints
    room_by: Ints


def empty_result(n: int) -> SimulationResult:
    a, b, c, d = (np.zeros(n, np.float64) for _ in range(4))
    e, f, g, h, i, j = (np.full(n, -1, np.int64) for _ in range(6))
    return SimulationResult(a, b, c, d, e, f, g, h, i, j)


REQUEST, COMPUTED, MOVED, VISIBLE, BEGUN, REACH, REACHED = range(7)
OWED, ACCEPTED, SEEN = range(3)


def run_events(table: QueueTable, tokens: SyncTokens, costs: Costs, fair: list[bool]) -> SimulationResult:
    """fair: per port, whether transfers share it; else one after the other by rank, then by arrival."""
    run = _Run(table, tokens, costs, fair)
    run.go()
    return run.result()


@dataclass
class _Port:
    """A resource instance. heap: (key, sequence, queue, work); the key is the rank, or the shared time at which a move ends."""

    heap: list[tuple[float, int, int, float]] = field(default_factory=list[tuple[float, int, int, float]])
    version: int = 0
    current: int = -1
    shared: float = 0.0
    since: float = 0.0


@dataclass
class _Reach:
    """A unit at the ports of banks. left: cycles of work that its instruction still needs them, as of `since`; it does `speed` of one in a cycle."""

    left: float = 0.0
    since: float = 0.0
    speed: float = 0.0
    version: int = 0
    active: bool = False


class _Run(QueueLists):
    """The state of the simulation."""

    def __init__(self, table: QueueTable, tokens: SyncTokens, costs: Costs, fair: list[bool]) -> None:
        super().__init__(table, tokens)
        self.fair, queues = fair, len(table.stream)
        self.moves = pairs_of(costs.first, costs.port, costs.rank)
        self.work: list[list[float]] = [costs.work[a:b].astype(float).tolist() for a, b in itertools.pairwise(costs.first.tolist())]
        self.setup, self.cycles, self.latency = ([float(v) for v in column.tolist()] for column in (costs.setup, costs.cycles, costs.latency))
        self.taken_room = list(self.tokens)
        coupled = tokens.coupled
        self.feeders = moves_of(coupled.ends) if coupled else []
        self.lag: list[int] = coupled.lag.tolist() if coupled else []
        self.owner = [(i, c, amount) for i, posts in enumerate(self.posts) for c, amount in posts] if coupled else []
        self.state = [OWED] * len(tokens.posts.counter)
        self.ports = [_Port() for _ in fair]
        banks = costs.banks
        self.uses = pairs_of(banks.first, banks.number, banks.rank) if banks else []
        self.bank_room, self.alone = ([float(v) for v in column.tolist()] for column in (banks.room, costs.alone)) if banks else ([], [])
        self.users = [[0] * banks.ranks for _ in self.bank_room] if banks else []
        self.reach = [_Reach() for _ in range(queues)]
        self.events: list[tuple[float, int, int, int, int]] = []
        self.sequence = 0
        self.pending = [0] * queues
        self.ready: list[int] = []
        self.held: list[int] = []
        self.cause = [(-1, -1)] * queues
        self.free_at, self.seen_at = [0.0] * queues, [0.0] * queues
        self.out = empty_result(len(self.item))

    def make_ready(self, queue: int) -> None:
        self.ready.append(queue)

    def arrives(self, queue: int, by: int) -> None:
        if by >= 0:
            self.cause[queue] = (NOT_FETCHED, by)

    def result(self) -> SimulationResult:
        return replace(self.out, order=np.array(self.order, np.int64))

    def schedule(self, time: float, kind: int, which: int, version: int = 0) -> None:
        heapq.heappush(self.events, (time, self.sequence, kind, which, version))
        self.sequence += 1

    def go(self) -> None:
        for stream in range(len(self.fetched)):
            self.fetch(stream)
        self.start_ready(0.0)
        while self.events:
            now, _, kind, which, version = heapq.heappop(self.events)
            if kind == REQUEST:
                self.request(which, now)
            elif kind == COMPUTED:
                self.part_done(which, now)
            elif kind == MOVED:
                self.moved(which, version, now)
            elif kind == REACH:
                self.take_ports(which, now)
            elif kind == REACHED:
                self.leave_ports(which, version, now)
            elif kind == BEGUN:
                self.show_one(which, *self.owner[which])
            else:
                self.show(which)
                if self.feeders and self.held:
                    self.release(which, now)
            if not self.events or self.events[0][0] > now:
                self.start_ready(now)

    def advance(self, q: int, now: float) -> None:
        self.head[q] += 1
        self.free_at[q] = now
        self.cause[q] = (-1, -1)
        self.consider(q)

    def fed(self, i: int) -> bool:
        """Whether those that feed a coupled instruction are done."""
        for c, amount in self.feeders[i] if self.feeders else ():
            if self.tokens[c] < amount:
                self.out.room_counter[i] = c
                return False
        return True

    def accept(self, q: int, i: int, now: float) -> bool:
        if not self.fed(i):
            return False
        whole, some = True, False
        for k, (c, amount) in enumerate(self.posts[i], self.first_post[i]):
            if self.state[k] != OWED:
                continue
            if self.mode[c] != ALL_PRIOR and self.depth[c] >= 0:
                if self.taken_room[c] + amount > self.depth[c]:
                    whole = False
                    self.out.room_counter[i] = c
                    continue
                self.taken_room[c] += amount
            self.state[k] = ACCEPTED
            some = True
        if some:
            seen = max(float(self.out.end[i]) + self.latency[i], now, self.seen_at[q])
            self.seen_at[q] = seen
            self.schedule(seen, VISIBLE, i)
        if whole:
            self.out.released[i] = now
        return whole

    def part_done(self, q: int, now: float) -> None:
        self.pending[q] -= 1
        if self.pending[q]:
            return
        i = self.head_of(q)
        self.out.end[i] = now
        if self.accept(q, i, now):
            self.advance(q, now)
        else:
            self.held.append(q)

    def release(self, by: int, now: float) -> None:
        held, self.held = self.held, []
        for q in held:
            i = self.head_of(q)
            if self.accept(q, i, now):
                self.out.room_by[i] = by
                self.advance(q, now)
            else:
                self.held.append(q)

    def start(self, q: int, now: float) -> None:
        i = self.head_of(q)
        self.order.append(i)
        self.out.start[i] = now
        self.out.freed[i] = self.free_at[q]
        self.out.counter[i], self.out.producer[i] = self.cause[q]
        self.waiting[q] -= 1
        self.fetch(self.stream[q], i)
        room = False
        for c, amount in self.waits[i]:
            if self.mode[c] != ALL_PRIOR:
                self.tokens[c] -= amount
                if self.depth[c] >= 0:
                    self.taken_room[c] -= amount
                    room = True
        reaches = bool(self.uses and self.uses[i] and self.alone[i] > 0)
        self.pending[q] = 1 + len(self.moves[i]) + reaches
        working = now + self.setup[i]
        if self.moves[i]:
            self.schedule(working, REQUEST, q)
        self.schedule(working + self.cycles[i], COMPUTED, q)
        if reaches:
            self.schedule(working, REACH, q)
        if self.feeders:
            for k, (c, _) in enumerate(self.posts[i], self.first_post[i]):
                if self.lag[c] >= 0:
                    self.schedule(now + self.lag[c], BEGUN, k)
        if room and self.held:
            self.release(i, now)

    def start_ready(self, now: float) -> None:
        while self.ready:
            at = min(range(len(self.ready)), key=lambda r: self.head_of(self.ready[r]))
            q = self.ready[at]
            c = self.lacking(self.head_of(q))
            self.ready[at] = self.ready[-1]
            self.ready.pop()
            if c < 0:
                self.start(q, now)
            else:
                self.waiter[c].append(q)

    def show(self, i: int) -> None:
        for k, (c, amount) in enumerate(self.posts[i], self.first_post[i]):
            if self.state[k] == ACCEPTED:
                self.show_one(k, i, c, amount)

    def show_one(self, k: int, i: int, c: int, amount: int) -> None:
        if self.state[k] == SEEN:
            return
        self.state[k] = SEEN
        self.tokens[c] += amount
        waiting, self.waiter[c] = self.waiter[c], []
        for q in reversed(waiting):
            self.cause[q] = (c, i)
            self.consider(q)

    def plan_fair(self, p: int, now: float) -> None:
        port = self.ports[p]
        port.version += 1
        if port.heap:
            self.schedule(now + (port.heap[0][0] - port.shared) * float(len(port.heap)), MOVED, p, port.version)

    def begin(self, p: int, now: float) -> None:
        port = self.ports[p]
        _, _, port.current, work = heapq.heappop(port.heap)
        self.schedule(now + work, MOVED, p, port.version)

    def request(self, q: int, now: float) -> None:
        i = self.head_of(q)
        for (p, rank), work in zip(self.moves[i], self.work[i], strict=True):
            port = self.ports[p]
            if self.fair[p]:
                if port.heap:
                    port.shared += (now - port.since) / float(len(port.heap))
                port.since = now
            key = port.shared + work if self.fair[p] else float(rank)
            heapq.heappush(port.heap, (key, self.sequence, q, work))
            self.sequence += 1
            if self.fair[p]:
                self.plan_fair(p, now)
            elif port.current < 0:
                self.begin(p, now)

    def moved(self, p: int, version: int, now: float) -> None:
        port = self.ports[p]
        if version != port.version:
            return
        q = port.current
        if self.fair[p]:
            port.shared, _, q, _ = heapq.heappop(port.heap)
            port.since = now
            self.plan_fair(p, now)
        else:
            port.current = -1
            if port.heap:
                self.begin(p, now)
        self.out.slowest[self.head_of(q)] = p
        self.part_done(q, now)

    def take_ports(self, q: int, now: float) -> None:
        """From now on the unit's instruction needs its ports."""
        i, reach = self.head_of(q), self.reach[q]
        reach.left, reach.since, reach.speed, reach.active = self.alone[i], now, 0.0, True
        self.count_users(i, 1)
        self.share_ports(now)

    def leave_ports(self, q: int, version: int, now: float) -> None:
        reach = self.reach[q]
        if version != reach.version:
            return
        reach.active = False
        i = self.head_of(q)
        self.out.slowest[i] = -1
        self.count_users(i, -1)
        self.share_ports(now)
        self.part_done(q, now)

    def share_ports(self, now: float) -> None:
        """Units of one rank take turns in the cycles of a port that those before them leave; a unit does as much as its most wanted port lets it.

        Where each waits for another, as ranks that differ from port to port can have it, the first one goes alone.
        """
        active = [q for q, reach in enumerate(self.reach) if reach.active]
        speeds = {q: min(1.0, *(self.share(p, rank) for p, rank in self.uses[self.head_of(q)])) for q in active}
        if active and not any(speeds.values()):
            speeds[active[0]] = 1.0
        for q, speed in speeds.items():
            reach = self.reach[q]
            if speed != reach.speed:
                reach.left = max(reach.left - (now - reach.since) * reach.speed, 0.0)
                reach.since, reach.speed = now, speed
                reach.version += 1
                if speed > 0:
                    self.schedule(now + reach.left / speed, REACHED, q, reach.version)

    def share(self, port: int, rank: int) -> float:
        """The part of each cycle in which a port serves a unit of this rank."""
        users = self.users[port]
        return max(self.bank_room[port] - float(sum(users[:rank])), 0.0) / float(users[rank])

    def count_users(self, i: int, more: int) -> None:
        for port, rank in self.uses[i]:
            self.users[port][rank] += more
