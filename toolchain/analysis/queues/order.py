"""In what order a program's instructions run when time is not simulated: in-order queues that meet at counters."""

import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.compile import load_library
from toolchain.analysis.queues.deadlock import explain, lost_token
from toolchain.analysis.queues.token_run import TokenRun, run_tokens
from toolchain.isa.program import Ints, Program
from toolchain.isa.queue_table import QueueTable, program_queues
from toolchain.isa.sync_tokens import ALL_PRIOR, Moves, SyncTokens, sync_tokens
from toolchain.spec.errors import Diagnostic

CHECKER = Path(__file__).resolve().parents[2] / "templates" / "checker"


def issue_order(program: Program, seed: int | None = None, tokens: SyncTokens | None = None) -> Ints:
    """int64 [n]: of the ready instructions the earliest in the program goes first, with a seed a random one.

    Raises UserError E0501 for a deadlock, E0504 for a token that a flag loses, and what sync_tokens raises.
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
    library = load_library("queues", (CHECKER / "queues.c").read_text())
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
