"""Constraints that look at control registers: checked once it is known which instruction's fields each register holds."""

from collections.abc import Container, Iterator

import numpy as np

from toolchain.isa.checks import MOST, latched_constraints
from toolchain.isa.columns import Leaf, evaluate_columns, field_leaf
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints
from toolchain.isa.semantics import ir
from toolchain.spec.errors import Diagnostic
from toolchain.spec.expr import Const, Expr, Index, Member, Name, children
from toolchain.spec.model import Constraint


def latched_violations(provenance: Provenance) -> Iterator[Diagnostic]:
    """E0404 for every instruction whose latched or host registers break one of its constraints, the first ones of each."""
    program = provenance.program
    for kind, constraint in latched_constraints(program.machine):
        instructions = np.flatnonzero(program.kind == kind)
        if len(instructions):
            yield from _broken(provenance, kind, instructions, constraint)


def _broken(provenance: Provenance, kind: int, instructions: Ints, constraint: Constraint) -> Iterator[Diagnostic]:
    program, leaf = provenance.program, register_leaf(provenance, kind, instructions)
    held = evaluate_columns(constraint.that, leaf, len(instructions), lambda row: program.label(int(instructions[row])))
    looked_at = _looked_at(constraint.that, program.columns[kind])
    for row in np.flatnonzero(held == 0)[: MOST + 1].tolist():
        shown = ", ".join(f"{_spelled(node)} = {int(np.broadcast_to(leaf(node, np.array([row])), 1)[0])}" for node in looked_at)
        yield Diagnostic("E0404", f"{program.label(int(instructions[row]))}: {constraint.message} ({shown})")


def _looked_at(expr: Expr, fields: Container[str]) -> list[Expr]:
    """The registers and fields that a constraint names, each once, not those inside an index."""
    match expr:
        case Member() | Index():
            return [expr]
        case Name(id=name):
            return [expr] if name in fields else []
        case _:
            return list(dict.fromkeys(part for child in children(expr) for part in _looked_at(child, fields)))


def _spelled(expr: Expr) -> str:
    match expr:
        case Member(base=base, name=name):
            return f"{_spelled(base)}.{name}"
        case Index(base=base, index=index):
            return f"{_spelled(base)}[{', '.join(map(_spelled, index))}]"
        case Name(id=name):
            return name
        case Const(value=value):
            return str(value)
        case _:
            return "..."


def register_leaf(provenance: Provenance, kind: int, instructions: Ints) -> Leaf:
    """`register.field`, `register[index].field`, `register[index]` and fields, for instructions of one kind (int64 [n])."""
    program = provenance.program
    own = {name: column[program.row[instructions]] for name, column in program.columns[kind].items()}
    plain = field_leaf(own)

    def leaf(expr: Expr, rows: Ints | None) -> Ints | int:
        match expr:
            case Member(base=Name(id=register), name=field):
                return read(register, Const(0), field, rows)
            case Member(base=Index(base=Name(id=register), index=(index,)), name=field):
                return read(register, index, field, rows)
            case Index(base=Name(id=register), index=(index,)):
                return read(register, index, "", rows)
            case _:
                return plain(expr, rows)

    def read(register: str, index: Expr, field: str, rows: Ints | None) -> Ints:
        chosen = instructions if rows is None else instructions[rows]
        every = np.arange(len(instructions)) if rows is None else rows
        places = evaluate_columns(index, lambda e, some: leaf(e, every if some is None else every[some]), len(chosen))
        return provenance.read(ir.RegisterRead(register, index, field), chosen, places)

    return leaf
