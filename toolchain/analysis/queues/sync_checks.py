"""Synchronisation that holds in this order of execution but not in every one: an end that may come too early, flags that may lose a token."""

from collections.abc import Iterator

import numpy as np

from toolchain.analysis.queues.clocks import Clocks, match
from toolchain.isa.program import Ints, Program
from toolchain.isa.queue_table import queue_table
from toolchain.isa.sync_tokens import FLAG, SyncTokens
from toolchain.spec.errors import Diagnostic


def sync_faults(program: Program, tokens: SyncTokens, order: Ints, clocks: Clocks) -> list[Diagnostic]:
    """E0506 and E0504. clocks: what happens_before says of this program."""
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
