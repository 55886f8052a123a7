"""Bounds of expressions from the facts at a point of an instruction: names, temporaries, and conditions that hold."""

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.floating import TRUTHS
from toolchain.isa.semantics.intervals import BITS, EVERYTHING, Interval, binary, call, compare, hull, inside, meet, pull
from toolchain.isa.semantics.loops import Key
from toolchain.isa.semantics.traverse import addresses, nodes
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine, Memory, ScalarType

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Known:
    """Bounds that hold at one point. facts: bounds of whole expressions that a condition gave."""

    names: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    temps: Mapping[str, Interval] = field(default_factory=dict[str, Interval])
    facts: Mapping[Expr, Interval] = field(default_factory=dict[Expr, Interval])

    def with_name(self, name: str, bounds: Interval) -> "Known":
        """After an assignment to a variable."""
        return replace(self.without({(name, False)}), names={**self.names, name: bounds})

    def with_temp(self, name: str, bounds: Interval) -> "Known":
        """After an assignment to a temporary."""
        return replace(self.without({(name, True)}), temps={**self.temps, name: bounds})

    def without(self, keys: Collection[Key]) -> "Known":
        """Forgets the bounds that conditions gave these variables and temporaries."""
        return self._forget(lambda e: (isinstance(e, ir.Var) and (e.name, False) in keys) or (isinstance(e, ir.Temp) and (e.name, True) in keys))

    def after_store(self) -> "Known":
        """After a write to a memory: bounds of loaded data no longer hold."""
        return self._forget(lambda e: isinstance(e, ir.Load | ir.ControlRead))

    def _forget(self, gone: Callable[[Expr], bool]) -> "Known":
        if not self.facts:
            return self
        return replace(self, facts={e: bounds for e, bounds in self.facts.items() if not any(map(gone, nodes(e)))})

    def join(self, other: "Known") -> "Known":
        """The bounds after either of two paths; a name that only one path assigns keeps that path's bounds."""
        return Known(
            _join(self.names, other.names), _join(self.temps, other.temps),
            {e: hull(b, other.facts[e]) for e, b in self.facts.items() if e in other.facts},
        )  # fmt: skip


def _join(a: Mapping[str, Interval], b: Mapping[str, Interval]) -> dict[str, Interval]:
    return {name: hull(*(m[name] for m in (a, b) if name in m)) for name in (*a, *b)}


Report = Callable[[Expr, Interval, tuple[Interval, ...]], None]
"""Told of every node that is evaluated: its bounds and those of its operands."""


def quiet(_node: Expr, _bounds: Interval, _operands: tuple[Interval, ...]) -> None:
    """The report of an evaluation without a listener."""


@dataclass(frozen=True)
class Evaluator:
    """Gives the bounds of expressions of one instruction."""

    machine: Machine
    instruction: Instruction
    lanes: Mapping[str, int]
    report: Report = quiet
    latched: dict[tuple[str, str], Interval] = field(default_factory=dict[tuple[str, str], Interval], compare=False, repr=False)

    def start(self) -> Known:
        """The bounds before the first statement: the constraints on the fields."""
        known = Known()
        for constraint in self.instruction.constraints:
            known = self.assume(self._fields(constraint.that), True, known) or known
        return known

    def _fields(self, e: Expr) -> Expr:
        names = {f.name for f in self.instruction.fields}
        return ex.rewrite(e, lambda part: ir.FieldRef(part.id) if isinstance(part, ex.Name) and part.id in names else None)

    def bounds(self, e: Expr, known: Known) -> Interval:
        """The interval of an expression's value."""
        if isinstance(e, ex.Const):  # of which no condition says more
            found, operands = (e.value, e.value), ()
        else:
            found, operands = self._node(e, known)
            found = meet(found, known.facts.get(e, found)) or found
        self.report(e, found, operands)
        return found

    def _node(self, e: Expr, known: Known) -> tuple[Interval, tuple[Interval, ...]]:
        match e:
            case ir.Var() | ir.FieldRef():
                return self._leaf(e, known), ()
            case ex.Binary(op=op, left=left, right=right) | ex.Compare(op=op, left=left, right=right):
                a, b = self.bounds(left, known), self.bounds(right, known)
                return (binary(op, a, b) if isinstance(e, ex.Binary) else compare(op, a, b)), (a, b)
            case ex.Choose(condition=condition, then=then, other=other):
                return self._choose(condition, then, other, known), ()
            case ex.Logic(op=op, values=values):
                return self._logic(op, values, known), ()
            case ex.Call(function=ex.Name(id=name), args=args) | ir.Extreme(op=name, values=args):
                parts = [self.bounds(a, known) for a in args]
                return call(name, parts), tuple(parts)
            case ex.Unary(op=op, value=value):
                a = self.bounds(value, known)
                return _unary(op, a), (a,)
            case ir.RoundShift(value=value, amount=amount):
                a, b = self.bounds(value, known), self.bounds(amount, known)
                low, high = binary(">>", a, b)
                return (low, high if b[1] <= 0 else high + 1), (a, b)
            case ir.Narrow(value=value, type=kind, overflow=overflow, low=low, high=high):
                return narrowed(self.bounds(value, known), (kind.low, kind.high) if overflow == "wrap" else (low, high), overflow), ()
            case ir.Float(op=op, type=kind, values=values):
                parts = tuple(self.bounds(value, known) for value in values)
                return BITS if op in TRUTHS else (0, (1 << kind.bits) - 1) if op == "to_bits" else type_bounds(kind), parts
            case ir.ToFloat(value=value, type=kind) | ir.ToInteger(value=value, type=kind):
                return type_bounds(kind), (self.bounds(value, known),)
            case ir.FloatReduce(value=value, type=kind):
                return type_bounds(kind), (self.bounds(value, known),)
            case ir.Lookup(value=value, position=position):
                return self.bounds(value, known), (self.bounds(position, known),)
            case ir.Reduce(op=op, value=value, over=over):
                return self._reduce(op, self.bounds(value, known), over), ()
            case ir.Load(access=access):
                return type_bounds(access.view.element.scalar), tuple(self.bounds(index, known) for index in addresses(access))
            case _:
                return self._leaf(e, known), ()

    def _choose(self, condition: Expr, then: Expr, other: Expr, known: Known) -> Interval:
        self.bounds(condition, known)
        paths = [(then, self.assume(condition, True, known)), (other, self.assume(condition, False, known))]
        return hull(*([self.bounds(e, path) for e, path in paths if path is not None] or [(0, 0)]))

    def _logic(self, op: str, values: tuple[Expr, ...], known: Known) -> Interval:
        path: Known | None = known
        results: list[Interval] = []
        for value in values:
            if path is None:
                break
            results.append(self.bounds(value, path))
            path = self.assume(value, op == "and", path)
        truth = [BITS if r[0] <= 0 <= r[1] and r != (0, 0) else (int(r != (0, 0)),) * 2 for r in results]
        pick = min if op == "and" else max
        return pick(t[0] for t in truth), pick(t[1] for t in truth)

    def _reduce(self, op: str, term: Interval, over: tuple[str, ...]) -> Interval:
        count = 1
        for lane in over:
            count *= self.lanes[lane]
        return (term[0] * count, term[1] * count) if op == "+" else term

    def _leaf(self, e: Expr, known: Known) -> Interval:
        match e:
            case ir.Var(name=name):
                return known.names.get(name, EVERYTHING)
            case ir.FieldRef(name=name):
                return self._field(self.instruction, name)
            case ir.Place(level=level):
                return 0, next(x.count for x in self.machine.levels if x.name == level) - 1
            case ir.RegisterRead(register=register, field_name=name):
                memory = self.machine.memory[register]
                return self._register(memory, name) if memory.latches else type_bounds(memory.element.scalar)
            case ir.ControlRead(access=access, member=member):
                for index in addresses(access):
                    self.bounds(index, known)
                kinds = [f.type for f in access.view.element.record if f.name == member]
                return type_bounds(kinds[0] if kinds else access.view.element.scalar)
            case ir.Lane(name=name):
                return 0, self.lanes[name] - 1
            case ir.Temp(name=name):
                return known.temps.get(name, EVERYTHING)
            case _:
                return EVERYTHING

    def _field(self, instruction: Instruction, name: str) -> Interval:
        found = instruction.field(name)
        if name in instruction.match:
            value = instruction.match[name] + found.minus
            return value, value
        return found.low, found.high

    def _register(self, memory: Memory, name: str) -> Interval:
        """A latched field of whichever instruction set it, and zero where none has."""
        zero = [(0, 0)] if memory.zeroed else []
        return functools.reduce(hull, [self._latched(self.machine.instruction[latched], name) for latched in memory.latches] + zero)

    def _latched(self, source: Instruction, name: str) -> Interval:
        """A latched field keeps its own instruction's constraints."""
        if (source.name, name) not in self.latched:
            other = replace(self, instruction=source, report=quiet)
            self.latched[source.name, name] = other.bounds(ir.FieldRef(name), other.start())
        return self.latched[source.name, name]

    def assume(self, condition: Expr, truth: bool, known: Known) -> Known | None:
        """The bounds once a condition held (or, truth False, failed); None where that cannot be."""
        match condition:
            case ex.Unary(op="not", value=value):
                return self.assume(value, not truth, known)
            case ex.Logic(op=op, values=values) if truth == (op == "and"):
                path: Known | None = known
                for value in values:
                    path = self.assume(value, truth, path) if path else None
                return path
            case ex.Logic(values=values):
                paths = [path for value in values if (path := self.assume(value, truth, known))]
                joined = paths[0] if paths else None
                for path in paths[1:]:
                    joined = joined.join(path) if joined else path
                return joined
            case ex.Compare(op=op, left=left, right=right):
                op = op if truth else NEGATED[op]
                a, b = self._silent(left, known), self._silent(right, known)
                path = self._fact(left, pull(op, a, b), known)
                return self._fact(right, pull(MIRRORED[op], b, a), path) if path else None
            case _:
                return self._fact(condition, pull("!=" if truth else "==", self._silent(condition, known), (0, 0)), known)

    def _silent(self, e: Expr, known: Known) -> Interval:
        return self._unheard.bounds(e, known)

    @functools.cached_property
    def _unheard(self) -> "Evaluator":
        return replace(self, report=quiet)

    def _fact(self, e: Expr, bounds: Interval | None, known: Known) -> Known | None:
        if bounds is None or isinstance(e, ex.Const):
            return known if bounds else None
        return replace(known, facts={**known.facts, e: bounds})


def _unary(op: str, a: Interval) -> Interval:
    if op == "not":
        return compare("==", a, (0, 0))
    return (-a[1], -a[0]) if op == "-" else (~a[1], ~a[0])


def type_bounds(kind: ScalarType) -> Interval:
    return kind.low, kind.high


def narrowed(value: Interval, target: Interval, overflow: str) -> Interval:
    """Bounds after narrowing into `target`."""
    if inside(value, target):
        return value
    if overflow != "saturate":
        return target
    return min(max(value[0], target[0]), target[1]), max(min(value[1], target[1]), target[0])
