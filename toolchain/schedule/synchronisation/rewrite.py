"""Plans to programs: sets the bits that say wait and post, puts added instructions in, encodes anew."""

from collections.abc import Mapping, Sequence

import numpy as np

from toolchain.isa.binary.encode import encode_streams
from toolchain.isa.binary.packing import matched_value
from toolchain.isa.checks import build_program
from toolchain.isa.program import Ints, Program
from toolchain.schedule.synchronisation.carriers import POST, WAIT, Bit, Carriers
from toolchain.schedule.synchronisation.plan import ADDED, Plan

Columns = list[dict[str, Ints]]


def without_tokens(program: Program, known: Carriers) -> Program:
    """The program with every bit cleared that waits on, or posts to, a counter between two units."""
    columns: Columns = [{name: column.copy() for name, column in held.items()} for held in program.columns]
    for (kind, unit, _, _), bit in known.bits.items():
        here = program.unit[program.kind == kind] == unit
        columns[kind][bit.field][here] &= ~np.int64(1 << bit.bit)
    streams, offset = encode_streams(program.machine, program.kind, program.stream, columns)
    return build_program(program.machine, streams, program.kind, program.stream, offset, tuple(columns))


def rewritten(program: Program, plans: Sequence[Plan], known: Carriers) -> tuple[Program, Ints]:
    """The program as planned, one plan a stream, and int64 [n] where each of its instructions comes from; ADDED: from nowhere."""
    source, kind, unit = (np.array([x for plan in plans for x in getattr(plan, name)], np.int64) for name in ("source", "kind", "unit"))
    stream = np.repeat(np.arange(len(plans)), [len(plan.source) for plan in plans])
    columns = _columns(program, source, kind, unit)
    row = np.empty(len(kind), np.int64)
    for k in range(len(columns)):
        row[kind == k] = np.arange(int((kind == k).sum()))
    first = np.searchsorted(stream, np.arange(len(plans)))
    for start, plan in zip(first.tolist(), plans, strict=True):
        for link in plan.links.values():
            for action, who in ((WAIT, link.takes), (POST, link.posts)):
                if action == WAIT or link.channel.mode != "all_prior":
                    _set(columns, known.bits, (action, link.channel.counter), np.array(who, np.int64) + start, (kind, unit, row))
    streams, offset = encode_streams(program.machine, kind, stream, columns)
    return build_program(program.machine, streams, kind, stream, offset, tuple(columns)), source


def _columns(program: Program, source: Ints, kind: Ints, unit: Ints) -> Columns:
    """Fields of every kind of instruction, those of added ones as the machine's nops say."""
    nops = {u.name: n for n in program.machine.nops for u in program.machine.units if u.name == n.unit}
    names = [u.name for u in program.machine.units]
    found: Columns = []
    for k, instruction in enumerate(program.machine.instructions):
        rows = np.flatnonzero(kind == k)
        old, added = source[rows] != ADDED, np.flatnonzero(source[rows] == ADDED).tolist()
        held: dict[str, Ints] = {}
        for f in instruction.fields:
            column = np.zeros(len(rows), np.int64)
            column[old] = program.columns[k][f.name][program.row[source[rows[old]]]]
            for at in added:
                column[at] = matched_value(instruction, f) if f.name in instruction.match else nops[names[int(unit[rows[at]])]].fields[f.name]
            held[f.name] = column
        found.append(held)
    return found


def _set(columns: Columns, bits: Mapping[tuple[int, int, str, str], Bit], what: tuple[str, str], who: Ints, place: tuple[Ints, Ints, Ints]) -> None:
    kind, unit, row = (column[who] for column in place)
    for k, u in set(zip(kind.tolist(), unit.tolist(), strict=True)):
        bit = bits[k, u, *what]
        columns[k][bit.field][row[(kind == k) & (unit == u)]] |= 1 << bit.bit
