"""Barriers: where an instruction waits for several streams, these post to one event, and one wait takes all of their tokens.

Tokens of one counter are alike, so a wait must never take one that was meant for the next. It cannot where whoever posts for a wait knows that
everyone has posted for the one before, as behind a barrier, where all waited for all. Where that is not so, each pair keeps an event of its own.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.synchronisation.event_lines import signals
from toolchain.schedule.synchronisation.events import EventPool
from toolchain.schedule.synchronisation.plan import Meeting, Plan

Waits = Mapping[int, tuple[int, ...]]
"""By taker, whom it waits for by events."""


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
