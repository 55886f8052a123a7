"""The token simulation in Python, step by step as toolchain/templates/checker/queues.c, for systems without a compiler.

Queues and counters of a program are Python lists, here and in the event simulation: scalar numpy access is ten times slower.
"""

import heapq
import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints, QueueTable
from toolchain.isa.sync_tokens import ALL_PRIOR, COUNTING, FLAG, Moves, SyncTokens


def pairs_of(start: Ints, first: Ints, second: Ints) -> list[list[tuple[int, int]]]:
    """The pairs (first, second) of each row; row n has those from start[n] to start[n + 1]."""
    pairs: list[tuple[int, int]] = list(zip(first.tolist(), second.tolist(), strict=True))
    ends: list[int] = start.tolist()
    return [pairs[a:b] for a, b in itertools.pairwise(ends)]


def moves_of(moves: Moves) -> list[list[tuple[int, int]]]:
    """(counter, amount) pairs of every instruction."""
    return pairs_of(moves.start, moves.counter, moves.amount)


class QueueLists(ABC):
    """Position of each queue, values of the counters, and the queues that wait for them.

    fetched: per stream, the next instruction to fetch; waiting: per queue, how many are fetched and have not started.
    head: per queue, how many are done. waiter: per counter, the queues whose next instruction lacks its tokens.
    """

    def __init__(self, table: QueueTable, tokens: SyncTokens) -> None:
        self.queue_start: list[int] = table.start.tolist()
        self.item: list[int] = table.item.tolist()
        self.queue: list[int] = table.queue.tolist()
        self.stream: list[int] = table.stream.tolist()
        self.room: list[int] = table.room.tolist()
        self.ends: list[int] = table.first[1:].tolist()
        self.fetched: list[int] = table.first[:-1].tolist()
        self.waiting, self.head = [0] * len(self.stream), [0] * len(self.stream)
        self.waits, self.posts = moves_of(tokens.waits), moves_of(tokens.posts)
        self.first_post: list[int] = tokens.posts.start.tolist()
        self.tokens: list[int] = tokens.initial.tolist()
        self.mode: list[int] = tokens.mode.tolist()
        self.depth: list[int] = tokens.depth.tolist()
        self.waiter: list[list[int]] = [[] for _ in self.tokens]
        self.order: list[int] = []

    @abstractmethod
    def make_ready(self, queue: int) -> None:
        """The first instruction of a queue lacks nothing."""

    @abstractmethod
    def arrives(self, queue: int, by: int) -> None:
        """The first instruction of a queue was fetched. by: the instruction whose start made room for it; -1: none."""

    def fetch(self, stream: int, by: int = -1) -> None:
        """Takes the next instructions of a stream into their queues, until one has no room."""
        while self.fetched[stream] < self.ends[stream]:
            instruction = self.fetched[stream]
            queue = self.queue[instruction]
            if 0 <= self.room[queue] <= self.waiting[queue]:
                return
            self.fetched[stream] += 1
            self.waiting[queue] += 1
            if self.head_of(queue) == instruction:
                self.arrives(queue, by)
                self.consider(queue)

    def head_of(self, queue: int) -> int:
        """The first instruction of a queue that is not done."""
        return self.item[self.queue_start[queue] + self.head[queue]]

    def consider(self, queue: int) -> None:
        """The first instruction of a queue is ready or waits for a counter, if it is fetched."""
        at = self.queue_start[queue] + self.head[queue]
        if at == self.queue_start[queue + 1] or self.item[at] >= self.fetched[self.stream[queue]]:
            return
        counter = self.lacking(self.item[at])
        if counter < 0:
            self.make_ready(queue)
        else:
            self.waiter[counter].append(queue)

    def lacking(self, instruction: int) -> int:
        """The first counter that holds less than an instruction waits for, or -1."""
        for counter, amount in self.waits[instruction]:
            if self.tokens[counter] < amount:
                return counter
        return -1


MASK = (1 << 64) - 1


@dataclass(frozen=True)
class TokenRun:
    """The end of a token run.

    order: the instructions issued. tokens: count of every counter. head: per queue, how many of its instructions are done.
    fetched: per stream, the next instruction to fetch. posted: bool per entry of SyncTokens.posts.
    lost: (instruction, counter) of a token that met a set flag.
    """

    order: Ints
    tokens: Ints
    head: Ints
    fetched: Ints
    posted: NDArray[np.bool_]
    lost: tuple[int, int] | None


def run_tokens(table: QueueTable, tokens: SyncTokens, seed: int | None) -> TokenRun:
    """seed None: the earliest ready instruction first; else a random one."""
    run = _Run(table, tokens, _Earliest() if seed is None else _Random(seed & MASK))
    run.go()
    order, held, head, fetched = (np.array(values, np.int64) for values in (run.order, run.tokens, run.head, run.fetched))
    return TokenRun(order, held, head, fetched, np.array(run.posted, np.bool_), run.lost)


class _Earliest:
    """Ready queues; the one whose head comes first in the program goes first."""

    def __init__(self) -> None:
        self.ready: list[tuple[int, int]] = []

    def push(self, instruction: int, queue: int) -> None:
        heapq.heappush(self.ready, (instruction, queue))

    def pop(self) -> tuple[int, int]:
        return heapq.heappop(self.ready)


class _Random:
    """Ready queues in a bag; splitmix64 picks."""

    def __init__(self, seed: int) -> None:
        self.state = seed
        self.ready: list[tuple[int, int]] = []

    def push(self, instruction: int, queue: int) -> None:
        self.ready.append((instruction, queue))

    def pop(self) -> tuple[int, int]:
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        at = (z ^ z >> 31) % len(self.ready)
        last = self.ready.pop()
        if at == len(self.ready):
            return last
        chosen, self.ready[at] = self.ready[at], last
        return chosen


class _Run(QueueLists):
    """The state of the simulation. blocked: queues whose first instruction waits for room for its tokens."""

    def __init__(self, table: QueueTable, tokens: SyncTokens, ready: _Earliest | _Random) -> None:
        super().__init__(table, tokens)
        self.ready = ready
        self.blocked: list[int] = []
        self.lost: tuple[int, int] | None = None
        self.posted = [False] * len(tokens.posts.counter)

    def make_ready(self, queue: int) -> None:
        self.ready.push(self.head_of(queue), queue)

    def arrives(self, queue: int, by: int) -> None:
        pass

    def go(self) -> None:
        for stream in range(len(self.fetched)):
            self.fetch(stream)
        while self.ready.ready and self.lost is None:
            instruction, queue = self.ready.pop()
            counter = self.lacking(instruction)
            if counter >= 0:
                self.waiter[counter].append(queue)
                continue
            self.order.append(instruction)
            self.waiting[queue] -= 1
            self.fetch(self.stream[queue])
            self.take(instruction)
            self.finish(instruction, queue)

    def take(self, instruction: int) -> None:
        room = False
        for counter, amount in self.waits[instruction]:
            if self.mode[counter] != ALL_PRIOR:
                self.tokens[counter] -= amount
                room = room or self.depth[counter] >= 0
        if room and self.blocked:
            held, self.blocked = self.blocked, []
            for queue in held:
                self.finish(self.head_of(queue), queue)

    def finish(self, instruction: int, queue: int) -> None:
        """Posts as many tokens as there is room for; the queue goes on when all are posted."""
        if self.lost is not None:
            return
        whole = True
        for k, (counter, amount) in enumerate(self.posts[instruction], self.first_post[instruction]):
            whole = self.post(k, counter, amount, instruction) and whole
        if self.lost is not None:
            return
        if whole:
            self.head[queue] += 1
            self.consider(queue)
        else:
            self.blocked.append(queue)

    def post(self, entry: int, counter: int, amount: int, instruction: int) -> bool:
        after = self.tokens[counter] + amount
        if self.posted[entry] or self.lost is not None:
            return True
        if self.mode[counter] == FLAG and after > 1:
            self.lost = (instruction, counter)
            return True
        if self.mode[counter] == COUNTING and 0 <= self.depth[counter] < after:
            return False
        self.posted[entry] = True
        self.tokens[counter] = after
        waiters, self.waiter[counter] = self.waiter[counter], []
        for queue in reversed(waiters):
            self.consider(queue)
        return True
