"""Synchronisation of streams that share memories: each stream's own counters inside it, events between streams, barriers where an instruction waits
for several, and phases between which all streams stand still.

Tokens of one counter are alike, so a wait must never take one that was meant for the next. It cannot where whoever posts for a wait knows that
everyone has posted for the one before, as behind a barrier, where all waited for all. Where that is not so, each pair keeps an event of its own.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.dependences import accesses_by_memory, find_dependences_across
from toolchain.analysis.footprints import footprints
from toolchain.analysis.interlock import held_instructions, is_ordered
from toolchain.analysis.state import State
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.sync_tokens import sync_encoding
from toolchain.schedule.synchronisation.capacity import fit_counters
from toolchain.schedule.synchronisation.events import EventPool, Events, find_events
from toolchain.schedule.synchronisation.plan import ADDED, Link, Meeting, Plan, ending_kind
from toolchain.schedule.synchronisation.rewrite import Table, is_hollow, signals, table_of, without_tokens, write
from toolchain.schedule.synchronisation.synchronise import Synchronised, end_needs, synchronise
from toolchain.schedule.synchronisation.tokens import TokenChoice
from toolchain.spec.model import Machine

Waits = Mapping[int, tuple[int, ...]]
"""By taker, whom it waits for by events."""

Line = tuple[int, int, Mapping[str, int]]
"""An instruction of a barrier: kind, unit, fields."""


def find_meetings(plan: Plan) -> None:
    """Moves tokens of the plan from pairs of queues to meetings, where fewer instructions say the same. Nothing may be added to the plan then."""
    if plan.pool is None or plan.pool.events.wait.most < 2:
        return
    waits = _waits(plan)
    events = _events(plan, plan.pool, [t for t, posters in waits.items() if len(posters) > 1])
    able = {t: posters for t, posters in waits.items() if plan.unit[t] in events and 1 < len(posters) <= plan.pool.events.wait.most}
    chosen = _worth(able, waits)
    while True:
        safe = _Order(plan, plan.pool, events, chosen).safe()
        kept = _worth({t: chosen[t] for t in safe}, waits)
        if len(kept) == len(chosen):
            break
        chosen = kept
    _move(plan, events, chosen)


def _waits(plan: Plan) -> Waits:
    found = defaultdict[int, list[int]](list)
    for link in (link for link in plan.links.values() if link.channel.event >= 0):
        for poster, taker in zip(link.posts, link.takes, strict=True):
            found[taker].append(poster)
    return {taker: tuple(sorted(posters)) for taker, posters in sorted(found.items())}


def _events(plan: Plan, pool: EventPool, takers: Sequence[int]) -> dict[int, int]:
    """By queue of these takers, the event that it waits on for several; the same number for all queues of a unit where it is free."""
    queues, width, found = {plan.unit[taker] for taker in takers}, len(plan.machine.units), dict[int, int]()
    for unit in range(width):
        own = pool.unused(sorted(queue for queue in queues if queue % width == unit))
        for queue, event in own.items():
            pool.take(queue, event)
        found |= own
    return found


def _worth(able: Waits, waits: Waits) -> Waits:
    """The waits that pay, as they cost no signal: a poster to others as well would need one more, and post to these later."""
    chosen = dict(able)
    while True:
        alone = {poster for taker, posters in waits.items() if taker not in chosen for poster in posters}
        kept = {taker: posters for taker, posters in chosen.items() if alone.isdisjoint(posters)}
        if len(kept) == len(chosen):
            return chosen
        chosen = kept


def _move(plan: Plan, events: Mapping[int, int], chosen: Waits) -> None:
    for link in (link for link in plan.links.values() if link.channel.event >= 0):
        left = [(poster, taker) for poster, taker in zip(link.posts, link.takes, strict=True) if taker not in chosen]
        link.posts, link.takes = [poster for poster, _ in left], [taker for _, taker in left]
    plan.meetings += [Meeting(events[plan.unit[taker]], taker, posters) for taker, posters in chosen.items()]


Rows = NDArray[np.int32]


@dataclass
class _Order:
    """The knowledge of instructions where `chosen` tokens go by shared events: how many instructions of each queue are certainly done, with the
    signals to shared events behind them."""

    plan: Plan
    pool: EventPool
    events: Mapping[int, int]
    chosen: Waits

    def safe(self) -> Iterator[int]:
        """The takers that always get the tokens meant for them, and whose event never holds up who posts to it."""
        rows, queues = self._rows(), defaultdict[int, list[int]](list)
        for taker in self.chosen:
            queues[self.plan.unit[taker]].append(taker)
        for takers in queues.values():
            yield from self._in_turn(rows, takers)

    def _in_turn(self, rows: Rows, takers: Sequence[int]) -> Iterator[int]:
        """takers: of one event, in their order. One is left out that comes too close behind the last that is not."""
        plan, depth, kept = self.plan, self.pool.events.depth, list[int]()
        for taker in takers:
            posters = self.chosen[taker]
            known = rows[list(posters)]
            before = self.chosen[kept[-1]] if kept else ()
            if not all((known[:, plan.unit[other]] > plan.place[other]).all() for other in before):
                continue
            taken = [other for other in kept if (known[:, plan.unit[other]] > plan.place[other]).all()]
            waiting = sum(len(self.chosen[other]) for other in kept[len(taken) :])
            if depth is None or waiting + len(posters) <= depth:
                kept.append(taker)
                yield taker

    def _rows(self) -> Rows:
        """int32 [instructions, queues]. A token that a unit passes on inside its stream goes out before the signals behind the instruction."""
        plan, tokens = self.plan, self._tokens()
        rows, last = np.zeros((len(plan.source), len(plan.members)), np.int32), [-1] * len(plan.members)
        for index, unit in enumerate(plan.unit):
            row = rows[index]
            if last[unit] >= 0:
                row[:] = rows[last[unit]]
                if not plan.its(unit).overlaps:
                    row[unit] = plan.place[index]
            for other in plan.held[index]:
                _learn(row, rows[other], plan.unit[other], plan.place[other])
            for poster, own in tokens.get(index, ()):
                _learn(row, rows[poster], plan.unit[poster], plan.place[poster] + own)
            last[unit] = index
        return rows

    def _tokens(self) -> dict[int, list[tuple[int, int]]]:
        """By taker, who posts to it, and whether it has then posted to all shared events."""
        plan, found = self.plan, defaultdict[int, list[tuple[int, int]]](list)
        single = self._single()
        for link in plan.links.values():
            for poster, taker in zip(link.posts, link.takes, strict=True):
                shared = taker in self.chosen and link.channel.event >= 0
                found[taker].append((poster, int(link.channel.event >= 0 and (not shared or poster in single))))
        return found

    def _single(self) -> set[int]:
        """The instructions whose shared events one signal says, so that a token of it tells of all."""
        goals, width = defaultdict[int, list[tuple[int, int]]](list), len(self.plan.machine.units)
        for taker, posters in self.chosen.items():
            for poster in posters:
                goals[poster].append((self.events[self.plan.unit[taker]], self.plan.unit[taker] // width))
        return {poster for poster, own in goals.items() if sum(1 for _ in signals(self.plan.machine, self.pool.events, own)) == 1}


def _learn(row: Rows, other: Rows, unit: int, place: int) -> None:
    np.maximum(row, other, out=row)
    row[unit] = max(row[unit], place)


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
    dependences = find_dependences_across(program, order, runs, provenance)
    held = held_instructions(program, accesses_by_memory(program, runs, provenance)).latest
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


def stopping_events(machine: Machine) -> Events | None:
    """The machine's events, where whoever waits for one stands still as a whole (`stops`); else None."""
    events = find_events(machine)
    return events if events and any(counter.stops for counter in machine.counters if counter.name == events.counter) else None


def synchronise_phases(program: Program, order: Ints, state: State, events: Events) -> Synchronised:
    """As `synchronise_streams`, on a machine whose events stop a stream: each stream's own counters inside a phase, and a barrier of all streams
    between two phases. An instruction that needs another stream's is in a later phase than that one, and there are as few phases as that allows.

    Raises UserError E0520 where the machine cannot express a wait that is needed.
    """
    plain = without_tokens(program, sync_encoding(program.machine))
    phase = _phases(plain, order, state)
    met, source = write(plain, _with_barriers(plain, phase, events), sync_encoding(program.machine))
    done = synchronise(met, state)
    return replace(done, source=np.append(source, ADDED)[done.source])


def _phases(program: Program, order: Ints, state: State) -> Ints:
    """int64 [n], the phase of each instruction. A stream's end is in the last of all, so that every stream is at every barrier."""
    provenance = Provenance(program, state, order)
    needs = find_dependences_across(program, order, footprints(program, state, order, provenance).runs, provenance).needs
    stream, phase, current = program.stream, np.zeros(len(program), np.int64), np.zeros(program.machine.streams, np.int64)
    numbers: list[int] = order.tolist()
    for index in numbers:
        earlier = needs[index][needs[index] >= 0]
        phase[index] = np.max(phase[earlier] + (stream[earlier] != stream[index]), initial=int(current[stream[index]]))
        current[stream[index]] = phase[index]
    phase[[np.flatnonzero(stream == number)[-1] for number in np.unique(stream)]] = phase.max()
    return phase


def _with_barriers(program: Program, phase: Ints, events: Events) -> Table:
    """The instructions without the events that there were, and a barrier wherever a stream goes from one phase to the next."""
    barrier = list(_barrier(program.machine, events, np.unique(program.stream).tolist()))
    kept = ~np.isin(program.kind, list(events.kinds))
    rows, fields = list[tuple[int, int, int, int]](), dict[int, Mapping[str, int]]()
    for stream in np.unique(program.stream).tolist():
        passed = 0
        for index in np.flatnonzero((program.stream == stream) & kept).tolist():
            for kind, unit, own in barrier * (int(phase[index]) - passed):
                fields[len(rows)] = own
                rows.append((ADDED, kind, unit, stream))
            passed = int(phase[index])
            rows.append((index, int(program.kind[index]), int(program.unit[index]), stream))
    source, kind, unit, streams = np.array(rows, np.int64).T
    return Table(source, kind, unit, streams, fields, ())


def _barrier(machine: Machine, events: Events, streams: list[int]) -> Iterator[Line]:
    """Every stream tells all of them that it has stopped, and waits until it was told by all."""
    unit = next(unit for unit in events.signal.units if unit in events.wait.units)
    for event, masks in signals(machine, events, [(0, stream) for stream in streams]):
        yield events.signal.kind, unit, events.signal.fields(unit, event, masks)
    left = len(streams)
    while left:
        amount = min(left, events.wait.most)
        yield events.wait.kind, unit, events.wait.fields(unit, 0, {}, amount)
        left -= amount
