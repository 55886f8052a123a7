"""Random nets of in-order queues and counters, legal or not, as hypothesis strategies and by seed."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from toolchain.isa.program import Ints, QueueTable, queue_table
from toolchain.isa.sync_tokens import ALL_PRIOR, COUNTING, Coupled, Moves, SyncTokens


@dataclass(frozen=True)
class Net:
    """queue: the queue of each instruction. room: what each queue holds, -1 any number; one stream."""

    queue: Ints
    queues: int
    tokens: SyncTokens
    room: tuple[int, ...] = ()

    @property
    def table(self) -> QueueTable:
        table = queue_table(self.queue, self.queues)
        return replace(table, room=np.array(self.room, np.int64)) if self.room else table


def rows(lists: list[dict[int, int]]) -> Moves:
    """Moves from {counter: amount} of each instruction."""
    start = np.cumsum([0, *(len(item) for item in lists)]).astype(np.int64)
    flat = [(c, item[c]) for item in lists for c in sorted(item)]
    return Moves(start, np.array([c for c, _ in flat], np.int64), np.array([a for _, a in flat], np.int64))


def net(queue: list[int], queues: int, waits: list[dict[int, int]], posts: list[dict[int, int]], depth: list[int], initial: list[int]) -> Net:
    names = tuple(f"c{k}" for k in range(len(depth)))
    shape = (np.array(depth, np.int64), np.array(initial, np.int64), np.full(len(depth), COUNTING, np.int64))
    return Net(np.array(queue, np.int64), queues, SyncTokens(names, names, *shape, rows(waits), rows(posts)))


@st.composite
def any_net(draw: st.DrawFn, most: int = 12) -> Net:
    """Nets with no promise: they may deadlock, wait for nobody, fill counters up."""
    queues, counters = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    n = draw(st.integers(1, most))
    moves = st.dictionaries(st.integers(0, counters - 1), st.integers(1, 2), max_size=2)
    queue = draw(st.lists(st.integers(0, queues - 1), min_size=n, max_size=n))
    waits, posts = (draw(st.lists(moves, min_size=n, max_size=n)) for _ in range(2))
    depth = draw(st.lists(st.sampled_from([-1, 1, 2, 3]), min_size=counters, max_size=counters))
    initial = draw(st.lists(st.integers(0, 1), min_size=counters, max_size=counters))
    room = draw(st.lists(st.sampled_from([-1, 1, 2]), min_size=queues, max_size=queues))
    return replace(net(queue, queues, waits, posts, depth, initial), room=tuple(room))


@st.composite
def coupled_net(draw: st.DrawFn) -> Net:
    """Nets whose last counters count what is done or has begun, and hold the ends of some instructions."""
    case = draw(any_net())
    counters, n = len(case.tokens.names), len(case.queue)
    first = draw(st.integers(0, counters - 1))
    mode = np.where(np.arange(counters) >= first, ALL_PRIOR, case.tokens.mode)
    lag = np.where(mode == ALL_PRIOR, draw(st.lists(st.integers(-1, 9), min_size=counters, max_size=counters)), -1)
    needed = st.dictionaries(st.integers(first, counters - 1), st.integers(1, 3), max_size=2)
    ends = rows(draw(st.lists(needed, min_size=n, max_size=n)))
    return replace(case, tokens=replace(case.tokens, mode=mode, coupled=Coupled(lag, ends)))


def pair_net(n: int, seed: int, queues: int = 4, depth: int = -1) -> Net:
    """A net with a counter for every ordered pair of queues, one poster and one taker each, that runs to its end."""
    random = np.random.default_rng(seed)
    queue = random.integers(0, queues, n).tolist()
    held = [0] * (queues * queues)
    waits: list[dict[int, int]] = []
    posts: list[dict[int, int]] = []
    for q in queue:
        source, target = (int(x) for x in random.integers(0, queues, 2))
        take, give = source * queues + q, q * queues + target
        waits.append({take: 1} if held[take] else {})
        held[take] -= len(waits[-1])
        room = random.random() < 0.5 and (depth < 0 or held[give] < depth)
        posts.append({give: 1} if room else {})
        held[give] += len(posts[-1])
    return net(queue, queues, waits, posts, [depth] * len(held), [0] * len(held))


def is_legal(case: Net, order: list[int]) -> bool:
    """Whether instructions may start in this order, each done at once where its counters have room."""
    tokens, table = case.tokens, case.table
    held, head, owed = tokens.initial.tolist(), [0] * case.queues, [dict[int, int]() for _ in range(case.queues)]
    for i in order:
        q = int(case.queue[i])
        if owed[q] or int(table.position[i]) != head[q]:
            return False
        if not fetched(case, i, head):
            return False
        head[q] += 1
        for c, a in entries(tokens.waits, i):
            held[c] -= a
            if held[c] < 0:
                return False
        owed[q] = dict(entries(tokens.posts, i))
        for debts in owed:
            for c, a in list(debts.items()):
                if tokens.depth[c] < 0 or held[c] + a <= tokens.depth[c]:
                    held[c] += debts.pop(c)
    return True


def fetched(case: Net, i: int, started: list[int] | tuple[int, ...]) -> bool:
    """Whether instruction i can be in its queue: it and all before it fitted. started: how many of each queue have."""
    for j in range(i + 1):
        q = int(case.queue[j])
        if case.room and 0 <= case.room[q] <= int((case.queue[:j] == q).sum()) - started[q]:
            return False
    return True


def single_ended(case: Net) -> Net:
    """Only the first queue on either side of a counter keeps its moves: then no choice decides whether it deadlocks."""

    def keep(moves: Moves) -> list[dict[int, int]]:
        owner: dict[int, int] = {}
        return [{c: a for c, a in entries(moves, i) if owner.setdefault(c, q) == q} for i, q in enumerate(case.queue.tolist())]

    t = case.tokens
    plain = net(case.queue.tolist(), case.queues, keep(t.waits), keep(t.posts), t.depth.tolist(), t.initial.tolist())
    return replace(plain, room=case.room)


def entries(moves: Moves, i: int) -> list[tuple[int, int]]:
    span = slice(int(moves.start[i]), int(moves.start[i + 1]))
    return list(zip(moves.counter[span].tolist(), moves.amount[span].tolist(), strict=True))
