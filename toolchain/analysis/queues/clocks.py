"""Vector clocks: what is certainly done before an instruction starts, in every execution of the program."""

import ctypes
import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.compile import load_library
from toolchain.analysis.queues.token_edges import Edges, Flags, Matching, edges, match
from toolchain.isa.program import Ints, Program
from toolchain.isa.queue_table import queue_table
from toolchain.isa.sync_tokens import ALL_PRIOR, SyncTokens, sync_tokens

Clocks = NDArray[np.int32]
CHECKER = Path(__file__).resolve().parents[2] / "templates" / "checker"


def happens_before(program: Program, order: Ints, tokens: SyncTokens | None = None) -> Clocks:
    """int32 [n, queues]: how many instructions of each queue are known to be complete before an instruction starts.

    Knowledge comes from the in-order queue (unless its unit overlaps instructions), from tokens, and from full counters,
    which hold a poster until a taker made room. order: a legal order, as issue_order gives; the result does not depend on it.
    """
    tokens = tokens or sync_tokens(program)
    overlaps = np.array([unit.overlaps for unit in program.machine.units] * program.machine.streams, np.bool_)
    return token_clocks(tokens, order, program.queue, overlaps)


def token_clocks(tokens: SyncTokens, order: Ints, queue: Ints, overlaps: Flags) -> Clocks:
    """queue: int64 [n]. overlaps: bool [queues], queues whose instructions start before the one before them is done.

    A wait on a counter with several posting queues orders something only if it takes the same tokens in every execution.
    """
    matching = match(tokens, order, queue)
    position = queue_table(queue, len(overlaps)).position
    ignored = matching.several_posters & (tokens.mode == ALL_PRIOR)  # so many are done, but which
    while True:
        clock = _propagate(edges(matching, ignored, len(queue)), order, queue, position, overlaps)
        doubtful = ambiguous(matching, clock, queue, position) & ~ignored
        if not doubtful.any():
            return clock
        ignored |= doubtful


def ambiguous(matching: Matching, clock: Clocks, queue: Ints, position: Ints) -> Flags:
    """bool per counter: whether some wait might take its tokens from other posts in another execution."""
    found = matching.several_posters & matching.several_takers
    for counter in np.flatnonzero(matching.several_posters & ~found):
        posts = slice(*np.searchsorted(matching.posts.counter, [counter, counter + 1]))
        takes = slice(*np.searchsorted(matching.takes.counter, [counter, counter + 1]))
        boundary = matching.takes.last[takes]
        if len(boundary):
            found[counter] = _unordered(matching, posts, boundary, clock, queue, position)
    return found


def _unordered(matching: Matching, posts: slice, boundary: Ints, clock: Clocks, queue: Ints, position: Ints) -> bool:
    """Whether a post of one batch of tokens may come before a post of the batch before. boundary: tokens taken after each wait.

    A post of several tokens may belong to several batches; those between its first and its last hold nothing else.
    """
    who, first, last = matching.posts.instruction[posts], matching.posts.first[posts], matching.posts.last[posts]
    begin, end = (np.searchsorted(boundary, edge, side="right") for edge in (first, last - 1))
    needed = np.zeros((len(boundary) + 2, clock.shape[1]), np.int64)
    for batch in (begin, end):
        np.maximum.at(needed, (batch + 1, queue[who]), position[who] + 1)
    knows = clock[who].astype(np.int64)
    knows[np.arange(len(who)), queue[who]] = position[who] + 1
    return any(bool((knows < needed[batch]).any()) for batch in (begin, end))


def _propagate(known: Edges, order: Ints, queue: Ints, position: Ints, overlaps: Flags) -> Clocks:
    clock = np.zeros((len(queue), len(overlaps)), np.int32)
    library = load_library("clocks", (CHECKER / "clocks.c").read_text())
    if library is None:
        _propagate_plain(known, order, queue, position, overlaps, clock)
    else:
        _propagate_native(library, known, order, queue, position, overlaps, clock)
    return clock


def _propagate_plain(known: Edges, order: Ints, queue: Ints, position: Ints, overlaps: Flags, clock: Clocks) -> None:
    """Does the same as toolchain/templates/checker/clocks.c."""
    queues = len(overlaps)
    now = [[0] * queues for _ in range(queues)]
    rows: list[list[int]] = [[]] * len(queue)
    last: list[int] = [-1] * queues
    pairs: list[tuple[int, int]] = list(zip(known.poster.tolist(), known.room.tolist(), strict=True))
    tokens = [pairs[a:b] for a, b in itertools.pairwise(known.start.tolist())]
    held: list[list[int]] = [known.held[a:b].tolist() for a, b in itertools.pairwise(known.held_start.tolist())]
    queue_of: list[int] = queue.tolist()
    place: list[int] = position.tolist()
    serial: list[bool] = (~overlaps).tolist()
    steps: list[int] = order.tolist()
    for i in steps:
        q = queue_of[i]
        row = now[q]
        for taker in held[last[q]] if last[q] >= 0 else ():
            row = list(map(max, row, rows[taker]))
        for poster, room in tokens[i]:
            row = list(map(max, row, rows[poster]))
            row[queue_of[poster]] = max(row[queue_of[poster]], place[poster] + 1)
            if room >= 0:
                row = list(map(max, row, rows[room]))
        rows[i] = row
        now[q] = row.copy()
        last[q] = i
        if serial[q]:
            now[q][q] = max(row[q], place[i] + 1)
    clock[:] = np.array(rows, np.int32).reshape(clock.shape)


class _Arguments(ctypes.Structure):
    _fields_ = (
        ("n", ctypes.c_int64), ("queues", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in (
            "order", "queue", "position", "overlaps", "start", "poster", "room", "held_start", "held", "last", "now", "clock",
        )),
    )  # fmt: skip


def _propagate_native(library: ctypes.CDLL, known: Edges, order: Ints, queue: Ints, position: Ints, overlaps: Flags, clock: Clocks) -> None:
    queues = len(overlaps)
    last, now = np.full(queues, -1, np.int64), np.zeros((queues, queues), np.int32)
    arrays = [
        np.ascontiguousarray(a, np.int64) for a in (order, queue, position, known.start, known.poster, known.room, known.held_start, known.held)
    ]
    busy = overlaps.astype(np.uint8)
    pointers = [a.ctypes.data for a in (*arrays[:3], busy, *arrays[3:], last, now, clock)]
    library.happens_before(ctypes.byref(_Arguments(len(queue), queues, *pointers)))
