"""Plans to programs: sets the bits that say wait and post, puts added instructions in, those of events before and behind the instructions that need
and make them, and encodes anew."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.isa.checks import build_program
from toolchain.isa.encode import encode_streams, matched_value
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics.instances import places
from toolchain.isa.sync_tokens import POST, WAIT, Bit, SyncEncoding
from toolchain.schedule.synchronisation.events import Events
from toolchain.schedule.synchronisation.plan import ADDED, Plan
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

Columns = list[dict[str, Ints]]

Fields = Mapping[str, int]
Goals = Sequence[tuple[int, int]]
"""(event, stream)"""


def without_tokens(program: Program, known: SyncEncoding) -> Program:
    """The program with every bit cleared that waits on, or posts to, a counter between two units."""
    units = {kind: program.unit[program.kind == kind] for kind in np.flatnonzero(np.bincount(program.kind)).tolist()}
    places = [(kind, bit.field, units[kind] == unit, np.int64(1 << bit.bit)) for (kind, unit, _, _), bit in known.bits.items() if kind in units]
    if not any((program.columns[kind][name][here] & mask).any() for kind, name, here, mask in places):
        return program
    columns: Columns = [{name: column.copy() for name, column in held.items()} for held in program.columns]
    for kind, name, here, mask in places:
        columns[kind][name][here] &= ~mask
    streams, offset = encode_streams(program.machine, program.kind, program.stream, columns)
    return build_program(program.machine, streams, program.kind, program.stream, offset, tuple(columns))


@dataclass(frozen=True)
class Table:
    """Instructions of all streams, stream by stream. source: where each comes from, ADDED: from nowhere. fields: of those that were added, by place.

    moves: of counters between two units, WAIT or POST, the counter, and who.
    """

    source: Ints
    kind: Ints
    unit: Ints
    stream: Ints
    fields: Mapping[int, Mapping[str, int]]
    moves: Sequence[tuple[str, str, Ints]]


def rewritten(program: Program, plans: Sequence[Plan], known: SyncEncoding) -> tuple[Program, Ints]:
    """The program as planned, one plan a stream, and int64 [n] where each of its instructions comes from; ADDED: from nowhere."""
    source, kind, unit = (np.array([x for plan in plans for x in getattr(plan, name)], np.int64) for name in ("source", "kind", "unit"))
    stream = np.repeat(np.arange(len(plans)), [len(plan.source) for plan in plans])
    first = np.searchsorted(stream, np.arange(len(plans)))
    moves = [
        (action, link.channel.counter, np.array(who, np.int64) + start)
        for start, plan in zip(first.tolist(), plans, strict=True)
        for link in plan.links.values()
        for action, who in ((WAIT, link.takes), (POST, link.posts))
        if who and (action == WAIT or link.channel.mode != "all_prior")
    ]
    idle = idle_fields(program.machine)
    fields = {at: idle[int(unit[at])] for at in np.flatnonzero(source == ADDED).tolist()}
    return write(program, Table(source, kind, unit, stream, fields, moves), known)


def idle_fields(machine: Machine) -> Mapping[int, Mapping[str, int]]:
    """By unit, all fields of the instruction with which it does nothing."""
    units, kinds = [u.name for u in machine.units], {i.name: i for i in machine.instructions}
    found: dict[int, Mapping[str, int]] = {}
    for nop in machine.nops:
        its = kinds[nop.instruction]
        found[units.index(nop.unit)] = {f.name: matched_value(its, f) if f.name in its.match else nop.fields[f.name] for f in its.fields}
    return found


def write(program: Program, table: Table, known: SyncEncoding) -> tuple[Program, Ints]:
    """The table encoded, with fields from the program where instructions come from it; and its sources."""
    columns = _columns(program, table)
    row = np.empty(len(table.kind), np.int64)
    for k in range(len(columns)):
        row[table.kind == k] = np.arange(int((table.kind == k).sum()))
    for action, counter, who in table.moves:
        _set(columns, known.bits, (action, counter), who, (table.kind, table.unit, row))
    streams, offset = encode_streams(program.machine, table.kind, table.stream, columns)
    return build_program(program.machine, streams, table.kind, table.stream, offset, tuple(columns)), table.source


def reordered(program: Program, order: Ints, known: SyncEncoding) -> Program:
    """The instructions of the program's one stream, which have no tokens, in this order."""
    return write(program, Table(order, program.kind[order], program.unit[order], program.stream, {}, ()), known)[0]


def _columns(program: Program, table: Table) -> Columns:
    """Fields of every kind of instruction."""
    found: Columns = []
    for k, instruction in enumerate(program.machine.instructions):
        rows = np.flatnonzero(table.kind == k)
        old, added = table.source[rows] != ADDED, np.flatnonzero(table.source[rows] == ADDED).tolist()
        held: dict[str, Ints] = {}
        for f in instruction.fields:
            column = np.zeros(len(rows), np.int64)
            column[old] = program.columns[k][f.name][program.row[table.source[rows[old]]]]
            for at in added:
                column[at] = table.fields[int(rows[at])][f.name]
            held[f.name] = column
        found.append(held)
    return found


def _set(columns: Columns, bits: Mapping[tuple[int, int, str, str], Bit], what: tuple[str, str], who: Ints, place: tuple[Ints, Ints, Ints]) -> None:
    kind, unit, row = (column[who] for column in place)
    for k, u in sorted(set(zip(kind.tolist(), unit.tolist(), strict=True))):
        bit = bits[k, u, *what]
        columns[k][bit.field][row[(kind == k) & (unit == u)]] |= 1 << bit.bit


@dataclass
class _Moved:
    """Events around an instruction. takes: with how many tokens. shared, posts: streams that take them together with others' tokens, and alone.

    The shared ones are posted first, so who takes another one of these tokens knows that they are posted.
    """

    takes: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    shared: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    posts: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


_NONE = _Moved()


def is_hollow(plan: Plan, index: int) -> bool:
    """Whether an instruction is nothing but the events that it moves."""
    return plan.source[index] == ADDED and plan.pool is not None and plan.kind[index] in plan.pool.events.kinds


@dataclass
class _Lines:
    """The growing table of a program. fields: of added instructions. first, last: the first and the last line of each planned instruction."""

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
    moved = _events(plan)
    for index in np.argsort(np.array(plan.unit, np.int64) // width, kind="stable").tolist():  # stream by stream
        _spell(plan, index, moved.get(index, _NONE), idle, lines)
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


def _events(plan: Plan) -> dict[int, _Moved]:
    """By instruction, the events that it moves."""
    found, width = defaultdict[int, _Moved](_Moved), len(plan.machine.units)
    for channel, link in ((link.channel, link) for link in plan.links.values() if link.channel.event >= 0):
        for poster, taker in zip(link.posts, link.takes, strict=True):
            found[poster].posts.append((channel.event, channel.target // width))
            found[taker].takes.append((channel.event, 1))
    for meeting in plan.meetings:
        found[meeting.taker].takes.append((meeting.event, len(meeting.posters)))
        for poster in meeting.posters:
            found[poster].shared.append((meeting.event, plan.unit[meeting.taker] // width))
    return found


def _spell(plan: Plan, index: int, moved: _Moved, idle: Mapping[int, Fields], lines: _Lines) -> None:
    """A planned instruction, between the instructions that move its events."""
    queue, source, hollow = plan.unit[index], plan.source[index], is_hollow(plan, index)
    unit, begin = queue % len(plan.machine.units), len(lines.source)
    before, behind = (_waits(plan, unit, moved), _signals(plan, unit, moved)) if plan.pool else ([], [])
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


def _waits(plan: Plan, unit: int, moved: _Moved) -> list[tuple[int, Fields]]:
    assert plan.pool
    wait = plan.pool.events.wait
    return [(wait.kind, wait.fields(unit, event, {}, amount)) for event, amount in moved.takes]


def _signals(plan: Plan, unit: int, moved: _Moved) -> list[tuple[int, Fields]]:
    assert plan.pool
    events = plan.pool.events
    said = (each for goals in (moved.shared, moved.posts) if goals for each in signals(plan.machine, events, goals))
    return [(events.signal.kind, events.signal.fields(unit, event, masks)) for event, masks in said]


def signals(machine: Machine, events: Events, goals: Goals) -> Iterator[tuple[int, Mapping[str, int]]]:
    """The fewest instructions that post to all of these that one mask at each level can say: (event, masks)."""
    masked = [level.name for level in events.levels if level.name in events.signal.masks]
    by_event: dict[int, set[tuple[int, ...]]] = {}
    for event, stream in goals:
        place = places(machine, stream)[0]
        by_event.setdefault(event, set()).add(tuple(place[level] for level in masked))
    for event, found in sorted(by_event.items()):
        for box in boxes(found):
            yield event, {level: sum(1 << number for number in numbers) for level, numbers in zip(masked, box, strict=True)}


def boxes(goals: set[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Products of index sets that cover the goals, each once."""
    sides = [tuple(sorted(set(side))) for side in zip(*sorted(goals), strict=True)]
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
