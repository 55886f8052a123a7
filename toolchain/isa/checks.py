"""Routes decoded instructions to units and holds them against what the machine says about them."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.isa.columns import evaluate_columns, field_leaf
from toolchain.isa.program import Ints, Program, stream_index
from toolchain.isa.semantics.instances import stream_levels
from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.expr import Const, Expr, Index, Member, Name, walk
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Constraint, Illegal, Machine

Columns = tuple[Mapping[str, Ints], ...]
"""For each kind of instruction: field -> int64 [instructions of that kind]."""

MOST = 20
"""Errors that one message holds; a last line says when there are more."""


@dataclass(frozen=True)
class Violation:
    """A fault of instruction `index`; fields: the ones that make it so."""

    index: int
    code: str
    message: str
    fields: tuple[str, ...] = ()


def build_program(machine: Machine, streams: Sequence[bytes], kind: Ints, stream: Ints, offset: Ints, columns: Columns) -> Program:
    """A Program with every instruction routed to its unit. Raises UserError E0408 where the routing names no unit."""
    row = np.empty(len(kind), np.int64)
    unit = np.empty(len(kind), np.int64)
    members = [np.flatnonzero(kind == k) for k in range(len(machine.instructions))]
    for rows in members:
        row[rows] = np.arange(len(rows))
    program = Program(machine, tuple(streams), kind, stream, offset, unit, row, columns)
    for k, rows in enumerate(members):
        if len(rows):
            unit[rows] = _route(program, k, rows)
    return program


def join_programs(programs: Sequence[Program], apart: int) -> Program:
    """Programs of one machine, on streams of their own, as one. apart: how many streams on each is to run from the one before."""
    machine = programs[0].machine
    streams = [b""] * machine.streams
    for number, program in enumerate(programs):
        for stream in np.unique(program.stream).tolist():
            streams[stream + number * apart] = program.streams[stream]
    kind, offset = (np.concatenate([getattr(program, name) for program in programs]) for name in ("kind", "offset"))
    stream = np.concatenate([program.stream + number * apart for number, program in enumerate(programs)])
    columns = [
        {field: np.concatenate([each.columns[number][field] for each in programs]) for field in programs[0].columns[number]}
        for number in range(len(machine.instructions))
    ]
    return build_program(machine, streams, kind, stream, offset, tuple(columns))


def _route(program: Program, kind: int, rows: Ints) -> Ints | int:
    machine = program.machine
    expr = machine.instructions[kind].unit
    if isinstance(expr, Const):
        return expr.value
    found = evaluate_fields(program, kind, rows, expr)
    wrong = np.flatnonzero((found < 0) | (found >= len(machine.units)))
    if len(wrong):
        raise fail(
            "E0408", f"{program.label(int(rows[wrong[0]]))}: the routing names unit {found[wrong[0]]}, there are {len(machine.units)}", expr.span
        )
    return found


def evaluate_fields(program: Program, kind: int, rows: Ints, expr: Expr) -> Ints:
    """int64 like `rows`: an expression over fields and places for all instructions of one kind, which `rows` are. Raises UserError E0122."""
    names = {**level_columns(program.machine, program.stream[rows]), **program.columns[kind]}
    return evaluate_columns(expr, field_leaf(names), len(rows), lambda row: program.label(int(rows[row])))


def level_columns(machine: Machine, stream: Ints) -> dict[str, Ints]:
    """For each topology level down to the one that has streams: the index of the instance each instruction runs on."""
    return {level.name: stream_index(machine, level.name, stream) for level in stream_levels(machine)}


def reads_registers(expr: Expr) -> bool:
    """Whether an expression needs more than the instruction's own fields (`ci.kernel_h`, `base[reg]`)."""
    return any(isinstance(node, Member | Index) for node in walk(expr))


def latched_constraints(machine: Machine) -> tuple[tuple[int, Constraint], ...]:
    """(kind, constraint) for those that read control registers; whoever knows the latched values checks them (E0404)."""
    return _latched_constraints(MachineKey(machine))


@functools.lru_cache(maxsize=128)
def _latched_constraints(key: MachineKey) -> tuple[tuple[int, Constraint], ...]:
    return tuple((kind, c) for kind, i in enumerate(key.machine.instructions) for c in i.constraints if reads_registers(c.that))


def violations(program: Program) -> list[Violation]:
    """The instructions that the machine's constraints (E0404) and its units' counters (E0405) refuse, in program order.

    Each rule gives only its first MOST + 1 cases, so that a program of nonsense costs no more than a good one.
    """
    found: list[Violation] = []
    for kind in range(len(program.machine.instructions)):
        rows = np.flatnonzero(program.kind == kind)
        if len(rows):
            found += _constraints(program, kind, rows)
            found += _counters(program, kind, rows)
    return sorted(found, key=lambda v: v.index)


def _constraints(program: Program, kind: int, rows: Ints) -> Iterator[Violation]:
    for constraint in program.machine.instructions[kind].constraints:
        if not reads_registers(constraint.that):
            broken = np.flatnonzero(evaluate_fields(program, kind, rows, constraint.that) == 0)
            for row in broken[: MOST + 1].tolist():
                yield constraint_violation(program, kind, int(rows[row]), row, constraint)


def constraint_violation(program: Program, kind: int, index: int, row: int, constraint: Constraint) -> Violation:
    """The sentence from the machine file, then the fields it looked at and their values."""
    own = program.columns[kind]
    names = tuple(dict.fromkeys(n.id for n in walk(constraint.that) if isinstance(n, Name) and n.id in own))
    values = ", ".join(f"{name} = {int(own[name][row])}" for name in names)
    return Violation(index, "E0404", f"{constraint.message} ({values})" if values else constraint.message, names)


def _counters(program: Program, kind: int, rows: Ints) -> Iterator[Violation]:
    own = program.columns[kind]
    for rule in program.machine.illegal:
        if rule.field in own:
            wrong = _is_set(program, rule, rows, own[rule.field])
            for row in np.flatnonzero(wrong)[: MOST + 1].tolist():
                yield Violation(int(rows[row]), "E0405", f"{rule.field} is set, and unit '{rule.unit}' has no counter for it", (rule.field,))


def _is_set(program: Program, rule: Illegal, rows: Ints, column: Ints) -> Ints:
    unit = next(i for i, u in enumerate(program.machine.units) if u.name == rule.unit)
    return (column >> rule.bit & 1) * (program.unit[rows] == unit)


def refuse(found: Sequence[Violation], diagnostic: Callable[[Violation], Diagnostic]) -> None:
    """Raises a UserError with the first MOST of what was found, if anything was."""
    if found:
        raise limited([diagnostic(v) for v in found[: MOST + 1]])


def limited(diagnostics: Sequence[Diagnostic]) -> UserError:
    """One error with at most MOST diagnostics, and a line that says so when there are more."""
    if len(diagnostics) <= MOST:
        return UserError(*diagnostics)
    last = diagnostics[MOST - 1]
    more = Diagnostic(last.code, "there are more errors after this one", place=last.place or (last.span.source.path if last.span else ""))
    return UserError(*diagnostics[:MOST], more)
