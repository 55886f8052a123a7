"""Queues and counters of a program as Python lists: what the token and the event simulation hold where there is no compiler.

Lists, because scalar numpy access is ten times slower.
"""

import itertools
from abc import ABC, abstractmethod

from toolchain.isa.program import Ints
from toolchain.isa.queue_table import QueueTable
from toolchain.isa.sync_tokens import Moves, SyncTokens


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
