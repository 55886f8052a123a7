"""The cost of instructions before they are emitted: their timing class over columns of field values, traffic in closed form.

Replicas below a stream share out the bytes of a transfer, each through a port of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from toolchain.isa.columns import Value, evaluate_rows, plain
from toolchain.isa.footprint.loop_nest import Exists, Nest, coefficient, machine_nests, outer_vars
from toolchain.isa.footprint.walk import Loop
from toolchain.isa.program import Ints
from toolchain.isa.semantics import ir
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Binary, Call, Compare, Const, Expr, Member, Name, Unary, conjuncts, rewrite, walk
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Instruction, Machine, Resource, TimingClass


def ports_of_stream(machine: Machine, resource: Resource) -> int:
    """Instances of a resource that one stream's replicas use."""
    return max(machine.instances(resource.scope) // machine.streams, 1)


def through_one_port(machine: Machine, resource: Resource, moved: Value) -> Value:
    """The bytes of a transfer that go through one port."""
    return -(-moved // ports_of_stream(machine, resource))


def part_of_ports(machine: Machine, copies: int, streams: int, together: int | None = None) -> Machine:
    """The machine as one of several copies of a program finds it that all run at once: of each port that copies share, it has its part.

    streams: of each copy. together: copies that take weights at once, so that each pays its part of them.
    """
    sharing = {r.name: max(min(copies, machine.streams // machine.instances(r.scope) // streams), 1) for r in machine.timing.resources}
    return _with_resources(machine, [replace(r, per=r.per * sharing[r.name], together=together) for r in machine.timing.resources])


@lru_cache(maxsize=16)
def ports_at_once(key: MachineKey) -> Machine:
    """The machine as a load for several copies at once finds it, of whose bytes each pays its part."""
    resources = key.machine.timing.resources
    if not any(each.together for each in resources):
        return key.machine
    return _with_resources(key.machine, [replace(r, bytes_per_cycle=r.bytes_per_cycle * (r.together or 1), together=None) for r in resources])


def _with_resources(machine: Machine, resources: Iterable[Resource]) -> Machine:
    return replace(machine, timing=replace(machine.timing, resources=tuple(resources)))


def cycles_alone(resource: Resource, share: Value) -> Value:
    """Cycles that bytes take through one port, alone on it."""
    return -(-share * resource.per // resource.bytes_per_cycle)


NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Fields:
    """count: rows. field: a field's values, one number or int64 [count]. latched: those of the instruction that a register holds, by its name."""

    count: int
    field: Callable[[str], Value]
    latched: Callable[[str, str], Value]


@dataclass(frozen=True)
class ClassCost:
    """One number or int64 [rows]. held: cycles that the unit is taken. latency: until the result shows. work: cycles of each resource."""

    held: Value
    latency: Value
    work: dict[str, Value]


def class_cost(machine: Machine, instruction: Instruction, fields: Fields) -> ClassCost:
    """Raises UserError E0121 for a class that names a value known only to a running program, E0122 for a cost without a value."""
    timing = timing_class(machine, instruction)
    work = {t.resource: _work(machine, t.resource, _value(machine, instruction, t.bytes, fields)) for t in timing.transfers}
    held = _value(machine, instruction, timing.cycles, fields)
    for cycles in work.values():
        held = np.maximum(held, cycles)
    return ClassCost(_value(machine, instruction, timing.setup, fields) + held, _value(machine, instruction, timing.latency, fields), work)


def timing_class(machine: Machine, instruction: Instruction) -> TimingClass:
    """The class that an instruction names."""
    return next(c for c in machine.timing.classes if c.name == instruction.timing)


def _expressions(machine: Machine, instruction: Instruction) -> tuple[Expr, ...]:
    """All of the class that an instruction names."""
    timing = timing_class(machine, instruction)
    return timing.cycles, timing.setup, timing.latency, *(t.bytes for t in timing.transfers)


def _work(machine: Machine, resource: str, moved: Value) -> Value:
    """Cycles that a transfer takes alone."""
    found: Resource = next(r for r in machine.timing.resources if r.name == resource)
    return cycles_alone(found, through_one_port(machine, found, moved))


def _value(machine: Machine, instruction: Instruction, expr: Expr, fields: Fields) -> Value:
    """A timing expression."""
    if isinstance(expr, Const):
        return expr.value

    def leaf(e: Expr, rows: Ints | None) -> Value:
        match e:
            case Name(id=name):
                found = fields.field(name)
            case Member(base=Name(id=register), name=name):
                found = fields.latched(register, name)
            case Call(function=Name(id=("reads" | "writes") as kind), args=(Name(id=memory),)):
                found = traffic(machine, instruction, kind.rstrip("s"), memory, fields)
            case _:
                raise fail("E0121", "this is not known before the program runs", e.span)
        return found if rows is None or isinstance(found, int) else found[rows]

    return evaluate_rows(expr, leaf, fields.count)


def traffic(machine: Machine, instruction: Instruction, kind: str, memory: str, fields: Fields) -> Value:
    """Bytes that an instruction reads or writes (`kind`) of a memory, counted from its loops.

    Raises UserError E1002 where a condition neither bounds one loop nor depends on fields alone.
    """
    total: Value = 0
    for turns in _turns(MachineKey(machine), instruction.name, kind, memory):
        total = total + _iterations(turns, fields) * turns.bytes
    return total


@dataclass(frozen=True)
class _Turns:
    """How often the loops of a nest run. loops: variable, start and stop. limits: `variable op limit`. conditions: on fields alone.

    bytes: that it moves in each turn. unclear: of which memory, where a condition is none of these, and the place.
    """

    loops: tuple[tuple[str, Expr, Expr], ...]
    limits: tuple[tuple[str, str, Expr], ...]
    conditions: tuple[Expr, ...]
    bytes: int
    unclear: tuple[str, Span | None] | None


@lru_cache(maxsize=1024)
def _turns(key: MachineKey, instruction: str, kind: str, memory: str) -> tuple[_Turns, ...]:
    """The turns of every nest that reads or writes the memory; found once a machine, as the tile search asks for each step of each operation."""
    nests = machine_nests(key.machine)[instruction]
    return tuple(_turns_of(nest) for nest in nests if nest.occurrence.kind == kind and nest.access.view.memory == memory)


def _turns_of(nest: Nest) -> _Turns:
    loops, limits, conditions = list[tuple[str, Expr, Expr]](), list[tuple[str, str, Expr]](), list[Expr]()
    unclear: tuple[str, Span | None] | None = None
    for item in nest.path:
        if isinstance(item, Loop):
            if outer_vars(item.start) or outer_vars(item.stop):
                unclear = unclear or (nest.access.view.memory, nest.access.span)
            loops.append((item.var, item.start, item.stop))
            continue
        for condition in conjuncts(item.condition):
            variables = outer_vars(condition) & {var for var, _, _ in loops}
            line = _line(condition, min(variables)) if len(variables) == 1 else None
            if not variables and not isinstance(condition, Exists):
                conditions.append(condition)
            elif line is not None:
                limits.append(line)
            else:
                unclear = unclear or (nest.access.view.memory, nest.access.span)
    return _Turns(tuple(loops), tuple(limits), tuple(conditions), nest.access.view.element.bytes * nest.replicas, unclear)


def timing_fields(machine: Machine, instruction: Instruction) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """The fields that an instruction's cost depends on, and (register, field) of those taken from latched instructions."""
    own, latched = set[str](), set[tuple[str, str]]()

    def field(name: str) -> Value:
        own.add(name)
        return 1

    def register(name: str, part: str) -> Value:
        latched.add((name, part))
        return 1

    everything = Fields(1, field, register)
    for expr in _expressions(machine, instruction):
        _mentioned(machine, instruction, expr, everything)
    return frozenset(own), frozenset(latched)


def _mentioned(machine: Machine, instruction: Instruction, expr: Expr, fields: Fields) -> None:
    """Asks for every field that the expression names, whatever its conditions say."""

    def seen(e: Expr) -> Expr | None:
        match e:
            case Name(id=name):
                fields.field(name)
            case ir.FieldRef(name=name):
                fields.field(name)
            case Member(base=Name(id=register), name=name):
                fields.latched(register, name)
                return e
            case ir.RegisterRead(register=register, field_name=name) if name:
                fields.latched(register, name)
                return e
            case Call(function=Name(id=("reads" | "writes") as kind), args=(Name(id=memory),)):
                for nest in machine_nests(machine)[instruction.name]:
                    if nest.occurrence.kind == kind.rstrip("s") and nest.access.view.memory == memory:
                        for item in nest.path:
                            for part in (item.start, item.stop) if isinstance(item, Loop) else (item.condition,):
                                rewrite(part, seen)
                return e
            case Call(args=args):
                for arg in args:
                    rewrite(arg, seen)
                return e
            case _:
                pass
        return None

    rewrite(expr, seen)


def require_counted(machine: Machine, instruction: Instruction) -> None:
    """Raises UserError E1002 where the class asks for bytes that the instruction's fields alone do not count, as a kernel's costs need them."""
    for expr in _expressions(machine, instruction):
        for part in walk(expr):
            match part:
                case Call(function=Name(id=("reads" | "writes") as kind), args=(Name(id=memory),)):
                    for turns in _turns(MachineKey(machine), instruction.name, kind.rstrip("s"), memory):
                        _require_clear(turns)
                case _:
                    pass


def _require_clear(turns: _Turns) -> None:
    if turns.unclear:
        text = f"the bytes that it moves of '{turns.unclear[0]}' are not counted by its fields alone"
        hint = "let its timing class name fields in place of reads and writes, or write the step as a template, with its cycles"
        raise fail("E1002", text, turns.unclear[1], hint)


def _iterations(turns: _Turns, fields: Fields) -> Value:
    """How often the loops run where their conditions hold."""
    _require_clear(turns)
    times: Value = 1
    for condition in turns.conditions:
        holds = _scalar(condition, fields) != 0
        times = times * (int(holds) if isinstance(holds, bool) else np.asarray(holds, np.int64))
    if isinstance(times, int) and not times:
        return 0  # of an instruction's kinds of memory, all but one: their loops have bounds of other fields
    bounds = {var: (_scalar(start, fields), _scalar(stop, fields)) for var, start, stop in turns.loops}
    for var, op, limit in turns.limits:
        start, stop = bounds[var]
        at = _scalar(limit, fields)
        low = at + 1 if op == ">" else at if op in (">=", "==") else start
        high = at if op == "<" else at + 1 if op in ("<=", "==") else stop
        bounds[var] = _greater(start, low), -_greater(-stop, -high)
    for start, stop in bounds.values():
        times = times * _greater(stop - start, 0)
    return times if isinstance(times, int) or np.ndim(times) else int(times)


def _greater(a: Value, b: Value) -> Value:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def _line(condition: Expr, var: str) -> tuple[str, str, Expr] | None:
    """`var op limit`, where a comparison says that."""
    negated = isinstance(condition, Unary) and condition.op == "not"
    inner = condition.value if isinstance(condition, Unary) and negated else condition
    if not isinstance(inner, Compare):
        return None
    op = NEGATED[inner.op] if negated else inner.op
    difference = Binary("-", inner.left, inner.right)
    slope = coefficient(difference, var)
    if op == "!=" or slope not in (Const(1), Unary("-", Const(1)), Const(-1)):
        return None
    rest = rewrite(difference, lambda e: Const(0) if isinstance(e, ir.Var) and e.name == var else None)
    return (var, op, Unary("-", rest)) if slope == Const(1) else (var, TURNED[op], rest)


def _scalar(expr: Expr, fields: Fields) -> Value:
    """An expression of an instruction's semantics over its fields."""
    if isinstance(expr, Const):  # most limits of loops, and plain fields
        return expr.value
    if isinstance(expr, ir.FieldRef):
        return plain(fields.field(expr.name))

    def leaf(e: Expr, rows: Ints | None) -> Value:
        found: Value
        match e:
            case ir.FieldRef(name=name):
                found = fields.field(name)
            case ir.RegisterRead(register=register, field_name=name) if name:
                found = fields.latched(register, name)
            case ir.Extreme(op=op, values=values):
                parts = [_scalar(v, fields) for v in values]
                found = (np.minimum if op == "min" else np.maximum).reduce(np.broadcast_arrays(*parts))
            case ir.Place():
                found = 0
            case _:
                raise fail("E0121", "this is not known before the program runs", e.span)
        return found if rows is None or np.ndim(found) == 0 else found[rows]

    return evaluate_rows(expr, leaf, fields.count)
