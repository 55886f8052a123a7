"""A plan of several streams as instructions: events are moved by instructions of their own, before and behind those that need and make them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.isa.semantics.instances import places
from toolchain.isa.sync_encoding import POST, WAIT
from toolchain.schedule.synchronisation.events import Events
from toolchain.schedule.synchronisation.plan import ADDED, Link, Plan
from toolchain.schedule.synchronisation.rewrite import Table, idle_fields
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

Fields = Mapping[str, int]


def is_hollow(plan: Plan, index: int) -> bool:
    """Whether an instruction is nothing but the events that it moves."""
    return plan.source[index] == ADDED and plan.pool is not None and plan.kind[index] in plan.pool.events.kinds


@dataclass
class _Lines:
    """The growing table of a program. fields: of added instructions. first, last: where what a planned instruction has become begins and ends."""

    source: list[int] = field(default_factory=list[int])
    kind: list[int] = field(default_factory=list[int])
    queue: list[int] = field(default_factory=list[int])
    fields: dict[int, Fields] = field(default_factory=dict[int, Fields])
    first: dict[int, int] = field(default_factory=dict[int, int])
    last: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, source: int, kind: int, queue: int, fields: Fields | None = None) -> None:
        if fields is not None:
            self.fields[len(self.source)] = fields
        self.source.append(source)
        self.kind.append(kind)
        self.queue.append(queue)


def table_of(plan: Plan) -> Table:
    """All instructions, with those that take events before, and those that post them behind, the ones that need and make them."""
    width, lines, idle = len(plan.machine.units), _Lines(), idle_fields(plan.machine)
    takes, posts = _events(plan, WAIT), _events(plan, POST)
    for stream in range(plan.streams):
        for index in (i for i, queue in enumerate(plan.unit) if queue // width == stream):
            _spell(plan, index, (takes.get(index, []), posts.get(index, [])), idle, lines)
    moves = [
        (action, link.channel.counter, np.array([_place(plan, where, i) for i in who], np.int64))
        for link in plan.links.values()
        if link.channel.event < 0
        for action, who, where in ((WAIT, link.takes, lines.first), (POST, link.posts, lines.last))
        if action == WAIT or link.channel.mode != "all_prior"
    ]
    source, kind, queue = (np.array(column, np.int64) for column in (lines.source, lines.kind, lines.queue))
    return Table(source, kind, queue % width, queue // width, lines.fields, moves)


def _place(plan: Plan, where: Mapping[int, int], index: int) -> int:
    """Position of a planned instruction. Raises UserError E0520 for one that would only pass tokens on inside its stream."""
    if index in where:
        return where[index]
    queue = plan.unit[index]
    hint = f"name one that does nothing: sync.nops.{plan.its(queue).name}"
    raise fail("E0520", f"no instruction of {plan.label(queue)} can pass a token on", hint=hint)


def _events(plan: Plan, action: str) -> dict[int, list[Link]]:
    """By instruction, the events that it takes or posts."""
    found: dict[int, list[Link]] = {}
    for link in (link for link in plan.links.values() if link.channel.event >= 0):
        for index in link.posts if action == POST else link.takes:
            found.setdefault(index, []).append(link)
    return found


def _spell(plan: Plan, index: int, moved: tuple[Sequence[Link], Sequence[Link]], idle: Mapping[int, Fields], lines: _Lines) -> None:
    """A planned instruction, between the instructions that move its events. moved: events that it takes and posts."""
    queue, source, hollow = plan.unit[index], plan.source[index], is_hollow(plan, index)
    unit, begin = queue % len(plan.machine.units), len(lines.source)
    before, behind = (_waits(plan, unit, moved[0]), _signals(plan, unit, moved[1])) if plan.pool else ([], [])
    for kind, fields in before:
        lines.add(ADDED, kind, queue, fields)
    lines.first[index] = lines.last[index] = len(lines.source)
    if not hollow:
        lines.add(source, plan.kind[index], queue, idle[unit] if source == ADDED else None)
    for kind, fields in behind:
        lines.add(ADDED, kind, queue, fields)
    if hollow:
        lines.first[index], lines.last[index] = begin, len(lines.source) - 1
    if begin == len(lines.source):
        del lines.first[index], lines.last[index]


def _waits(plan: Plan, unit: int, links: Sequence[Link]) -> list[tuple[int, Fields]]:
    assert plan.pool
    wait = plan.pool.events.wait
    return [(wait.kind, wait.fields(unit, link.channel.event, {})) for link in links]


def _signals(plan: Plan, unit: int, links: Sequence[Link]) -> list[tuple[int, Fields]]:
    assert plan.pool
    events = plan.pool.events
    return [(events.signal.kind, events.signal.fields(unit, event, masks)) for event, masks in signals(plan.machine, events, links)]


def signals(machine: Machine, events: Events, links: Sequence[Link]) -> Iterator[tuple[int, Mapping[str, int]]]:
    """The fewest instructions that post to all of these that one mask at each level can say: (event, masks)."""
    width, masked = len(machine.units), [level.name for level in events.levels if level.name in events.signal.masks]
    by_event: dict[int, set[tuple[int, ...]]] = {}
    for link in links:
        place = places(machine, link.channel.target // width)[0]
        by_event.setdefault(link.channel.event, set()).add(tuple(place[level] for level in masked))
    for event, goals in sorted(by_event.items()):
        for box in boxes(goals):
            yield event, {level: sum(1 << number for number in numbers) for level, numbers in zip(masked, box, strict=True)}


def boxes(goals: set[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Products of index sets that cover the goals, each once."""
    sides = [tuple(sorted(set(side))) for side in zip(*goals, strict=True)]
    if set(itertools.product(*sides)) == goals:
        yield tuple(sides)
        return
    level = next(k for k, side in enumerate(sides) if len(side) > 1)
    alike: dict[frozenset[tuple[int, ...]], list[int]] = {}
    for number in sides[level]:
        rest = frozenset(goal[:level] + goal[level + 1 :] for goal in goals if goal[level] == number)
        alike.setdefault(rest, []).append(number)
    for rest, numbers in alike.items():
        for box in boxes(set(rest)):
            yield (*box[:level], tuple(numbers), *box[level:])
