"""Vector clocks: the instructions that are done before an instruction starts, in every execution of the program.

A wait takes its token from the earliest post that is not yet taken, for every counter. Where a counter has one posting queue, the k-th token is the
same in every execution. Where it has several, a wait takes the same set of tokens in every execution only if each later post comes after the tokens
before it; `happens_before` checks that, and `sync_faults` finds synchronisation that holds in this order of execution only.
"""

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints, Program, queue_table
from toolchain.isa.sync_tokens import ALL_PRIOR, COUNTING, FLAG, Moves, SyncTokens, sync_tokens
from toolchain.spec.compile import load_checker
from toolchain.spec.errors import Diagnostic

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Side:
    """Token movements of one kind, counter by counter in the order of execution.

    instruction, counter, first, last: int64 [m]; an entry moves tokens first..last - 1 of its counter, counted from 0.
    """

    instruction: Ints
    counter: Ints
    first: Ints
    last: Ints


@dataclass(frozen=True)
class Edges:
    """The events for which an instruction's start and its end wait, in rows like Moves.

    poster: the instruction whose token is taken. room: the instruction whose start made room for that token, or -1.
    held: instructions whose start made room for a token that this instruction posts.
    """

    start: Ints
    poster: Ints
    room: Ints
    held_start: Ints
    held: Ints


@dataclass(frozen=True)
class Matching:
    """several_posters, several_takers: bool per counter, whether more than one queue posts or takes.

    own_last: for each take, how many tokens its own queue has taken by then.
    """

    tokens: SyncTokens
    posts: Side
    takes: Side
    several_posters: Flags
    several_takers: Flags
    own_last: Ints


def match(tokens: SyncTokens, order: Ints, queue: Ints) -> Matching:
    """order: a legal order of execution. queue: the queue of each instruction."""
    counters, rank = len(tokens.names), np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    posts, takes = _side(tokens.posts, rank, tokens.initial), _side(tokens.waits, rank, np.zeros(counters, np.int64))
    several = [_several(side, queue, counters) for side in (posts, takes)]
    return Matching(tokens, posts, takes, several[0], several[1], _own_last(takes, queue))


def _side(moves: Moves, rank: Ints, initial: Ints) -> Side:
    owner = np.repeat(np.arange(len(moves.start) - 1), np.diff(moves.start))
    by = np.lexsort((rank[owner], moves.counter))
    counter, amount = moves.counter[by], moves.amount[by]
    total = np.cumsum(amount)
    head = np.searchsorted(counter, counter)
    last = total - (total[head] - amount[head]) + initial[counter] if len(by) else total
    return Side(owner[by], counter, last - amount, last)


def _several(side: Side, queue: Ints, counters: int) -> Flags:
    found = np.zeros(counters, np.bool_)
    low, high = np.full(counters, np.iinfo(np.int64).max), np.full(counters, -1)
    np.minimum.at(low, side.counter, queue[side.instruction])
    np.maximum.at(high, side.counter, queue[side.instruction])
    np.less(low, high, out=found)
    return found


def _own_last(takes: Side, queue: Ints) -> Ints:
    """How many tokens the taker's own queue has taken by the end of each entry, whatever other queues do."""
    if not len(takes.counter):
        return takes.last
    by = np.lexsort((np.arange(len(takes.counter)), queue[takes.instruction], takes.counter))
    group = np.stack([takes.counter[by], queue[takes.instruction[by]]])
    new = np.concatenate([[True], (group[:, 1:] != group[:, :-1]).any(axis=0)])
    total = np.cumsum((takes.last - takes.first)[by])
    head = np.maximum.accumulate(np.where(new, np.arange(len(by)), 0))
    result = np.empty(len(by), np.int64)
    result[by] = total - (total[head] - (takes.last - takes.first)[by][head])
    return result


def edges(matching: Matching, ignore: Flags, n: int) -> Edges:
    """The edges that hold in every execution. ignore: counters whose waits are known to order nothing."""
    posts, takes = matching.posts, matching.takes
    low, high = _ranges(matching)
    useful = ~ignore[takes.counter] & ~(matching.several_posters & matching.several_takers)[takes.counter]
    low = np.where(matching.several_posters[takes.counter], low, np.maximum(high - 1, low))
    count = np.where(useful, np.maximum(high - low, 0), 0)
    entry = np.arange(int(count.sum())) + np.repeat(low - (np.cumsum(count) - count), count)
    room = _room(matching)
    start, entry = _rows(n, np.repeat(takes.instruction, count), entry)
    held = np.flatnonzero(room >= 0)
    held_start, held_by = _rows(n, posts.instruction[held], room[held])
    return Edges(start, posts.instruction[entry], room[entry], held_start, held_by)


def _ranges(matching: Matching) -> tuple[Ints, Ints]:
    """For each take the posts (positions in `posts`) low..high - 1 that it takes from; of initial tokens none."""
    posts, takes, tokens = matching.posts, matching.takes, matching.tokens
    amount = takes.last - takes.first
    last = np.where(matching.several_takers[takes.counter], matching.own_last, takes.last)
    last = np.where(tokens.mode[takes.counter] == ALL_PRIOR, amount, last)
    first = last - amount
    width = 1 + max(int(side.last.max(initial=0)) for side in (posts, takes))
    key = posts.counter * width + posts.last
    base = takes.counter * width
    begin = np.searchsorted(posts.counter, takes.counter)
    end = np.searchsorted(posts.counter, takes.counter, side="right")
    low = np.maximum(np.searchsorted(key, base + first, side="right"), begin)
    high = np.minimum(np.searchsorted(key, base + last, side="left") + 1, end)
    return low, np.where(last > tokens.initial[takes.counter], high, low)


def _room(matching: Matching) -> Ints:
    """For each post the instruction whose take made room for it, or -1; known where one queue posts and one takes.

    The start of an instruction that another one still feeds tells nothing.
    """
    posts, takes, tokens = matching.posts, matching.takes, matching.tokens
    if not len(takes.counter):
        return np.full(len(posts.counter), -1)
    depth = tokens.depth[posts.counter]
    starts_early = np.diff(tokens.coupled.ends.start) > 0 if tokens.coupled else np.zeros(len(tokens.waits.start) - 1, np.bool_)
    needed = posts.last - depth
    plain = (tokens.mode == COUNTING) & ~matching.several_posters & ~matching.several_takers
    wanted = plain[posts.counter] & (depth >= 0) & (needed > 0)
    width = 1 + max(int(side.last.max(initial=0)) for side in (posts, takes))
    at = np.searchsorted(takes.counter * width + takes.last, posts.counter * width + needed)
    at = np.minimum(at, len(takes.counter) - 1)
    return np.where(wanted & (takes.counter[at] == posts.counter) & ~starts_early[takes.instruction[at]], takes.instruction[at], -1)


def _rows(n: int, owner: Ints, value: Ints) -> tuple[Ints, Ints]:
    by = np.argsort(owner, kind="stable")
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=n), out=start[1:])
    return start, value[by]


Clocks = NDArray[np.int32]


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
    library = load_checker("clocks")
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


def sync_faults(program: Program, tokens: SyncTokens, order: Ints, clocks: Clocks) -> list[Diagnostic]:
    """E0506 and E0504. clocks: of `happens_before` for this program."""
    return [*_early_ends(program, clocks), *_unsafe_flags(program, tokens, order, clocks)]


def _early_ends(program: Program, clocks: Clocks) -> Iterator[Diagnostic]:
    """Check that the end runs last: all else of its stream is complete before it starts."""
    rules, names = program.machine.program, [i.name for i in program.machine.instructions]
    if not rules.last:
        return
    table, units = queue_table(program.queue, program.queues), len(program.machine.units)
    for end in np.flatnonzero(program.kind == names.index(rules.ends)).tolist():
        first = int(program.stream[end]) * units
        for queue in range(first, first + units):
            members = table.item[table.start[queue] : table.start[queue + 1]]
            known = int(table.position[end]) + 1 if queue == program.queue[end] else int(clocks[end, queue])
            if known < len(members):
                late = program.label(int(members[known]))
                yield Diagnostic("E0506", f"{program.label(end)} must be the last to run, but {late} may still be under way",
                                 hint=f"let it wait for unit {program.machine.units[queue - first].name}")  # fmt: skip
                break


def _unsafe_flags(program: Program, tokens: SyncTokens, order: Ints, clocks: Clocks) -> Iterator[Diagnostic]:
    """Each post to a flag must certainly come after the wait that took the token before it."""
    if not (tokens.mode == FLAG).any():
        return
    matching = match(tokens, order, program.queue)
    position = queue_table(program.queue, program.queues).position
    for counter in np.flatnonzero(tokens.mode == FLAG).tolist():
        posts = matching.posts.instruction[slice(*np.searchsorted(matching.posts.counter, [counter, counter + 1]))].tolist()
        takes = matching.takes.instruction[slice(*np.searchsorted(matching.takes.counter, [counter, counter + 1]))].tolist()
        for poster, taker in zip(posts[1 - int(tokens.initial[counter]) :], takes, strict=False):
            queue = int(program.queue[taker])
            if poster != taker and not _started_before(int(clocks[poster, queue]), taker, poster, program, position):
                who, other = program.label(poster), program.label(taker)
                yield Diagnostic("E0504", f"{who} may post to the flag {tokens.names[counter]} before {other} took the token before: one is lost",
                                 hint="let the second post wait for the taker of the first")  # fmt: skip
                break


def _started_before(known: int, taker: int, poster: int, program: Program, position: Ints) -> bool:
    return known > position[taker] or (program.queue[taker] == program.queue[poster] and position[taker] < position[poster])
