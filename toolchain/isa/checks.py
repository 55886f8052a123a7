"""Routes decoded instructions to units and holds them against the machine: ranges and constraints of their fields, the checks of
other implementations (warnings), and constraints on registers, once it is known which instruction's fields each register holds.
"""

import functools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.isa.columns import Leaf, evaluate_columns, field_leaf
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program, stream_index
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import stream_levels
from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.expr import Const, Expr, Index, Member, Name, children, walk
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
    """Raises a UserError with the first MOST diagnostics, if there are any."""
    if found:
        raise limited([diagnostic(v) for v in found[: MOST + 1]])


def limited(diagnostics: Sequence[Diagnostic]) -> UserError:
    """One error with at most MOST diagnostics, and a line that says so when there are more."""
    if len(diagnostics) <= MOST:
        return UserError(*diagnostics)
    last = diagnostics[MOST - 1]
    more = Diagnostic(last.code, "there are more errors after this one", place=last.place or (last.span.source.path if last.span else ""))
    return UserError(*diagnostics[:MOST], more)


def portability(program: Program) -> tuple[Diagnostic, ...]:
    """A warning E0412 for each portable check that instructions fail, with the first of them; in the order of the machine file."""
    found: dict[str, list[Ints]] = {}
    rules: dict[str, Constraint] = {}
    for name, rule in program.machine.portable:
        rules[rule.name] = rule
        found.setdefault(rule.name, []).append(_failing(program, name, rule))
    return tuple(_warnings(program, rules, {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}))


def _failing(program: Program, name: str, rule: Constraint) -> Ints:
    """Indices of the instructions of one kind that fail; a check that reads registers is left to who knows them."""
    kind = next(k for k, i in enumerate(program.machine.instructions) if i.name == name)
    rows = np.flatnonzero(program.kind == kind)
    if not len(rows) or reads_registers(rule.that):
        return np.zeros(0, np.int64)
    return rows[evaluate_fields(program, kind, rows, rule.that) == 0]


def _warnings(program: Program, rules: dict[str, Constraint], failing: dict[str, Ints]) -> Iterator[Diagnostic]:
    for name, rows in failing.items():
        if len(rows):
            more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
            text = f"{program.label(int(rows[0]))}{more}: {rules[name].message}"
            yield Diagnostic("E0412", text, hint=f"portable check '{name}'", severity="warning")


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
