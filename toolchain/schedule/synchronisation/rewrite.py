"""Plans to programs: sets the bits that say wait and post, puts added instructions in, encodes anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.isa.checks import build_program
from toolchain.isa.encode import encode_streams, matched_value
from toolchain.isa.program import Ints, Program
from toolchain.isa.sync_encoding import POST, WAIT, Bit, SyncEncoding
from toolchain.schedule.synchronisation.plan import ADDED, Plan
from toolchain.spec.model import Machine

Columns = list[dict[str, Ints]]


def without_tokens(program: Program, known: SyncEncoding) -> Program:
    """The program with every bit cleared that waits on, or posts to, a counter between two units."""
    columns: Columns = [{name: column.copy() for name, column in held.items()} for held in program.columns]
    for (kind, unit, _, _), bit in known.bits.items():
        here = program.unit[program.kind == kind] == unit
        columns[kind][bit.field][here] &= ~np.int64(1 << bit.bit)
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
        if action == WAIT or link.channel.mode != "all_prior"
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
