"""The token simulation in Python: what toolchain/templates/checker/queues.c does, step by step, where there is no compiler."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.queues.queue_lists import QueueLists
from toolchain.isa.program import Ints
from toolchain.isa.queue_table import QueueTable
from toolchain.isa.sync_tokens import ALL_PRIOR, COUNTING, FLAG, SyncTokens

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
        """Posts what there is room for; the queue goes on when everything is posted."""
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
