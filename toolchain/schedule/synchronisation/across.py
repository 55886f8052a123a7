"""Synchronisation of streams that share memories: each stream's own counters inside it, events between streams."""

from bisect import bisect_left

import numpy as np

from toolchain.analysis.dependences import find_dependences_across
from toolchain.analysis.footprints import footprints
from toolchain.analysis.interlock import held_instructions, is_ordered
from toolchain.analysis.state import State
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.sync_encoding import sync_encoding
from toolchain.schedule.synchronisation.capacity import fit_counters
from toolchain.schedule.synchronisation.event_lines import is_hollow, table_of
from toolchain.schedule.synchronisation.events import EventPool, find_events
from toolchain.schedule.synchronisation.meetings import find_meetings
from toolchain.schedule.synchronisation.plan import Link, Plan, ending_kind
from toolchain.schedule.synchronisation.rewrite import without_tokens, write
from toolchain.schedule.synchronisation.synchronise import Synchronised, end_needs
from toolchain.schedule.synchronisation.tokens import TokenChoice


def synchronise_streams(program: Program, order: Ints, state: State, barriers: bool = True) -> Synchronised:
    """The program with synchronisation of its own, inside its streams and between them; any that it had, events included, is forgotten.

    order: int64 [n], one in which all instructions could run one by one, those of each stream in the program's order. Its dependences are kept
    through whatever memory they go. state: as for `synchronise`. barriers: one wait may take the tokens of several streams.

    Raises UserError E0520 where the machine cannot express a wait that is needed.
    """
    machine, known, events = program.machine, sync_encoding(program.machine), find_events(program.machine)
    plain = without_tokens(program, known)
    plan = Plan(machine, known, machine.streams, EventPool(machine, events) if events else None)
    plan.ring(np.unique(program.stream).tolist())
    _fill(plan, plain, order, state)
    drop_idle_relays(plan)
    fit_counters(plan)
    if barriers:
        find_meetings(plan)
    written, source = write(plain, table_of(plan), known)
    tokens = sum(len(link.posts) for link in plan.links.values() if link.channel.mode != "all_prior")
    return Synchronised(written, source, tokens + sum(len(meeting.posters) for meeting in plan.meetings))


def _fill(plan: Plan, program: Program, order: Ints, state: State) -> None:
    """Plans the instructions, one after the other, without those that move events."""
    provenance = Provenance(program, state, order)
    runs = footprints(program, state, order, provenance).runs
    dependences, held = find_dependences_across(program, order, runs, provenance), held_instructions(program, runs, provenance).latest
    choice, ends, ordered = TokenChoice(plan), ending_kind(plan.machine), is_ordered(plan.machine)
    queues: list[int] = program.queue.tolist()
    kinds: list[int] = program.kind.tolist()
    gone = plan.pool.events.kinds if plan.pool else frozenset[int]()
    numbers: list[int] = order.tolist()
    at: dict[int, int] = {}
    for index in (i for i in numbers if kinds[i] not in gone):
        wanted = [at[need] for need in dependences.needs[index].tolist() if need >= 0]
        behind = tuple(at[other] for other in held[index].tolist() if other in at) if ordered else ()
        more, fence = end_needs(plan, queues[index], dependences.stores) if kinds[index] == ends else ([], None)
        at[index] = choice.add(index, kinds[index], queues[index], wanted + more, fence, behind)


def drop_idle_relays(plan: Plan) -> None:
    """Relays that post nothing, as a later one of their queue came to say all that they would: the next instruction of the queue waits for their
    tokens instead."""
    again = True
    while again:
        busy = {poster for link in plan.links.values() for poster in link.posts}
        relays = [i for i in range(len(plan.source)) if is_hollow(plan, i) and i not in busy]
        again = sum(_leave(plan, link, relay) for relay in relays for link in plan.links.values()) > 0


def _leave(plan: Plan, link: Link, relay: int) -> bool:
    """Moves a relay's token of this link to the next instruction of its queue; away with it where that one takes a later token, or there is none.

    An event stays: it is an instruction anyway. True where a token is gone, so that its poster may have become idle.
    """
    at = bisect_left(link.takes, relay)
    if at == len(link.takes) or link.takes[at] != relay:
        return False
    following = next(iter(plan.members[plan.unit[relay]][plan.place[relay] + 1 :]), None)
    if following is not None and following not in link.takes[at + 1 : at + 2]:
        if link.channel.event < 0 and plan.can_wait(following, link.channel):
            link.takes[at] = following
        return False
    del link.posts[at], link.takes[at]
    return True
