"""The order in which a program's instructions run when time is not simulated: in-order queues that meet at counters.

A program that stops is explained: which instruction waits for which counter, and why the token never comes.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.token_run import TokenRun, run_tokens
from toolchain.isa.program import Ints, Program, QueueTable, program_queues
from toolchain.isa.sync_tokens import ALL_PRIOR, WINDOW, Moves, SyncTokens, sync_tokens
from toolchain.spec.compile import load_checker
from toolchain.spec.errors import Diagnostic, UserError, fail

SHOWN = 8


@dataclass(frozen=True)
class Block:
    """Why one queue stands still. held: its head is done but a counter has no room for its tokens.

    counter: -1 where the head is not fetched, because an instruction before it does not fit into the queue of `helper`.
    helper: the first instruction left that could change it, None where there is none.
    """

    head: int
    counter: int
    amount: int
    held: bool
    helper: int | None


def explain(program: Program, tokens: SyncTokens, run: TokenRun) -> UserError:
    """One E0501 for each blocked queue, those that nothing can free first, then the cycle, if there is one."""
    blocks = _blocks(program, tokens, run)
    ranked = sorted(blocks.values(), key=lambda b: (b.helper is not None, b.head))
    lines = [Diagnostic("E0501", f"deadlock: {_sentence(program, tokens, run, blocks, b)}", hint=_hint(program, tokens, b)) for b in ranked[:SHOWN]]
    if len(ranked) > SHOWN:
        lines.append(
            Diagnostic("E0501", f"deadlock: {len(ranked) - SHOWN} more queues are blocked; {len(program) - len(run.order)} instructions never start")
        )
    cycle = _cycle(program, blocks)
    if cycle:
        lines.append(Diagnostic("E0501", "deadlock: a cycle, each waits for the next: " + " -> ".join(program.label(i) for i in cycle)))
    return UserError(*lines)


def lost_token(program: Program, tokens: SyncTokens, run: TokenRun) -> UserError:
    """E0504: a flag holds one token; a second one is lost."""
    instruction, counter = run.lost or (0, 0)
    return fail("E0504", f"{program.label(instruction)} posts to the flag {tokens.names[counter]}, which is still set: the token is lost",
                hint="wait for the flag between the two posts")  # fmt: skip


def _blocks(program: Program, tokens: SyncTokens, run: TokenRun) -> dict[int, Block]:
    """By queue. The reason that nothing can change is preferred, then the lowest counter."""
    issued = np.zeros(len(program), np.bool_)
    issued[run.order] = True
    posters = _first_left(tokens, tokens.posts, ~run.posted)
    takers = _first_left(tokens, tokens.waits, ~np.repeat(issued, np.diff(tokens.waits.start)))
    found: dict[int, Block] = {}
    for queue in range(program.queues):
        members = np.flatnonzero(program.queue == queue)
        if run.head[queue] < len(members):
            head = int(members[run.head[queue]])
            ahead = int(run.fetched[program.stream[head]])
            if head >= ahead:
                full = int(program.queue[ahead])
                first = int(np.flatnonzero(program.queue == full)[run.head[full]])
                found[queue] = Block(head, -1, ahead, False, first)
                continue
            reasons = list(_held(tokens, run, head, takers) if issued[head] else _waiting(tokens, run, head, posters))
            found[queue] = min(reasons, key=lambda b: (b.helper is not None, b.counter))
    return found


def _first_left(tokens: SyncTokens, moves: Moves, left: NDArray[np.bool_]) -> list[int | None]:
    """For each counter the first instruction with an entry that is left."""
    owner = np.repeat(np.arange(len(moves.start) - 1), np.diff(moves.start))
    first: list[int | None] = [None] * len(tokens.names)
    entries = np.flatnonzero(left)
    for counter, at in zip(*np.unique(moves.counter[entries], return_index=True), strict=True):
        first[int(counter)] = int(owner[entries[at]])
    return first


def _entries(moves: Moves, instruction: int) -> Iterator[tuple[int, int, int]]:
    for k in range(int(moves.start[instruction]), int(moves.start[instruction + 1])):
        yield k, int(moves.counter[k]), int(moves.amount[k])


def _waiting(tokens: SyncTokens, run: TokenRun, head: int, posters: list[int | None]) -> Iterator[Block]:
    for _, counter, amount in _entries(tokens.waits, head):
        if run.tokens[counter] < amount:
            yield Block(head, counter, amount, False, posters[counter])


def _held(tokens: SyncTokens, run: TokenRun, head: int, takers: list[int | None]) -> Iterator[Block]:
    for k, counter, amount in _entries(tokens.posts, head):
        if not run.posted[k]:
            yield Block(head, counter, amount, True, None if amount > tokens.depth[counter] else takers[counter])


def _sentence(program: Program, tokens: SyncTokens, run: TokenRun, blocks: dict[int, Block], block: Block) -> str:
    if block.counter < 0:
        return _not_fetched(program, block)
    name, has, plural = tokens.names[block.counter], int(run.tokens[block.counter]), "" if block.amount == 1 else "s"
    who = program.label(block.head)
    if block.held:
        depth = int(tokens.depth[block.counter])
        start = f"{who} is done, but has no room for its {block.amount} token{plural} of {name}, which holds {has} of {depth}"
        if block.amount > depth:
            return f"{start}: it could never hold {block.amount}"
        return f"{start}: " + (_helper(program, blocks, block, "take one") if block.helper is not None else "no instruction that is left takes one")
    if name.startswith(WINDOW):
        start = f"{who} is not issued before {block.amount} of the instructions ahead of it are done, because the window is full; {has} are"
        return f"{start}: " + (_helper(program, blocks, block, "make room") if block.helper is not None else _never(tokens, run, block.counter))
    if tokens.mode[block.counter] == ALL_PRIOR:
        start = f"{who} waits until the {block.amount} instructions before it that {name} counts are done; {has} are"
    else:
        start = f"{who} waits for {block.amount} token{plural} of {name}, which has {has}"
    return f"{start}: " + (_helper(program, blocks, block, "post it") if block.helper is not None else _never(tokens, run, block.counter))


def _not_fetched(program: Program, block: Block) -> str:
    """block.amount is the instruction that does not fit."""
    unit = program.machine.units[int(program.unit[block.amount])]
    who = program.label(block.head)
    stuck = "it" if block.amount == block.head else f"{program.label(block.amount)} before it"
    return f"{who} is not fetched: {stuck} does not fit into the queue of {unit.name}, which holds {unit.depth}"


def _never(tokens: SyncTokens, run: TokenRun, counter: int) -> str:
    posted = int(tokens.posts.amount[tokens.posts.counter == counter].sum())
    if not posted:
        return "no instruction of the program posts it"
    taken = int(tokens.initial[counter]) + posted - int(run.tokens[counter])
    return f"no instruction that is left posts it; the program posts {posted} in all, and {taken} are taken already"


def _helper(program: Program, blocks: dict[int, Block], block: Block, verb: str) -> str:
    helper = block.helper if block.helper is not None else -1
    queue, label = int(program.queue[helper]), program.label(helper)
    if helper == block.head:
        return f"only it itself would {verb}, once it has started"
    if queue == int(program.queue[block.head]):
        return f"{label} would {verb}, but it comes later in the same queue"
    front = blocks[queue].head
    return f"{label} would {verb}, but it is blocked" if front == helper else f"{label} would {verb}, but it stands behind {program.label(front)}"


def _hint(program: Program, tokens: SyncTokens, block: Block) -> str:
    if block.helper is not None or block.held or block.counter < 0 or tokens.mode[block.counter] == ALL_PRIOR:
        return ""
    counter = next(c for c in program.machine.counters if c.name == tokens.counters[block.counter])
    return f"post it in an instruction of unit {counter.source}" if counter.source else "post it once more, or do not wait"


def _cycle(program: Program, blocks: dict[int, Block]) -> list[int]:
    """The heads on the first cycle of queues that wait for each other, closed: the first one stands at both ends."""
    queue: Ints = program.queue
    for start in blocks:
        seen: list[int] = []
        at: int | None = start
        while at is not None and at not in seen:
            seen.append(at)
            helper = blocks[at].helper
            at = None if helper is None else int(queue[helper])
        if at is not None:
            ring = seen[seen.index(at) :]
            return [blocks[q].head for q in (*ring, ring[0])]
    return []


def issue_order(program: Program, seed: int | None = None, tokens: SyncTokens | None = None) -> Ints:
    """int64 [n]: of the ready instructions the earliest in the program goes first, with a seed a random one.

    Raises UserError E0501 for a deadlock, E0504 for a token that a flag loses, and as sync_tokens does.
    """
    tokens = tokens or sync_tokens(program)
    run = simulate(program_queues(program), tokens, seed)
    if run.lost is not None:
        raise lost_token(program, tokens, run)
    if int(run.head.sum()) < len(program):
        raise explain(program, tokens, run)
    return run.order


def leftovers(program: Program, tokens: SyncTokens | None = None) -> tuple[Diagnostic, ...]:
    """A warning E0505 for every counter that ends with another count than it began with; of a program that runs to its end."""
    tokens = tokens or sync_tokens(program)
    after = _sums(tokens, tokens.posts) - _sums(tokens, tokens.waits)
    return tuple(
        Diagnostic("E0505", f"{tokens.names[c]} ends with {int(tokens.initial[c] + after[c])} tokens; it began with {int(tokens.initial[c])}",
                   hint="the next program to run starts with what is left", severity="warning")
        for c in np.flatnonzero((after != 0) & (tokens.mode != ALL_PRIOR))
    )  # fmt: skip


def _sums(tokens: SyncTokens, moves: Moves) -> Ints:
    total = np.zeros(len(tokens.names), np.int64)
    np.add.at(total, moves.counter, moves.amount)
    return total


def simulate(table: QueueTable, tokens: SyncTokens, seed: int | None = None) -> TokenRun:
    """Runs until the end, a deadlock or a lost token. In C where there is a compiler, else in Python, with one result."""
    library = load_checker("queues")
    if library is None:
        return run_tokens(table, tokens, seed)
    return _run_native(library, table, tokens, seed)


class _Net(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n", "queues", "counters", "streams")),
        *((name, ctypes.c_void_p) for name in (
            "queue", "queue_start", "queue_item", "stream", "room", "first",
            "wait_start", "wait_counter", "wait_amount", "post_start", "post_counter", "post_amount",
            "depth", "mode", "tokens", "order", "head", "fetched", "lost", "posted",
        )),
    )  # fmt: skip


def _run_native(library: ctypes.CDLL, table: QueueTable, tokens: SyncTokens, seed: int | None) -> TokenRun:
    waits, posts, n, queues = tokens.waits, tokens.posts, len(table.item), len(table.start) - 1
    held, order, head, lost = tokens.initial.copy(), np.zeros(n, np.int64), np.zeros(queues, np.int64), np.full(2, -1, np.int64)
    posted, fetched = np.zeros(len(posts.counter), np.uint8), table.first[:-1].copy()
    arrays: tuple[NDArray[np.int64] | NDArray[np.uint8], ...] = (
        table.queue, table.start, table.item, table.stream, table.room, table.first,
        waits.start, waits.counter, waits.amount, posts.start, posts.counter, posts.amount,
        tokens.depth, tokens.mode, held, order, head, fetched, lost, posted,
    )  # fmt: skip
    net = _Net(n, queues, len(tokens.names), len(fetched), *(array.ctypes.data for array in arrays))
    library.issue_order.restype = ctypes.c_int64
    issued = library.issue_order(ctypes.byref(net), ctypes.c_int(seed is not None), ctypes.c_uint64(seed or 0))
    if issued < 0:
        raise MemoryError
    return TokenRun(order[:issued], held, head, fetched, posted.astype(np.bool_), (int(lost[0]), int(lost[1])) if lost[0] >= 0 else None)
