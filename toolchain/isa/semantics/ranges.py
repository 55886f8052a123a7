"""Interval analysis of an instruction's semantics: bounds for every node, and proofs that no value passes its range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.intervals import EVERYTHING, INT64, Interval, accumulated, hull, inside
from toolchain.isa.semantics.loops import Key, assigned, carried
from toolchain.isa.semantics.traverse import addresses
from toolchain.isa.semantics.value_ranges import Evaluator, Known, narrowed, type_bounds
from toolchain.spec import expr as ex
from toolchain.spec.errors import Diagnostic, Span, UserError
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine

MOST_PASSES = 2000
"""Passes over loop bodies that only learn; past them every carried variable gets the bounds of its type."""
ROUNDS = 3
"""How often a loop's body is followed before a variable that still grows gets the bounds of its type."""


@dataclass(frozen=True)
class Ranges:
    """Bounds over all executions. names: loop variables and scalars; temps: the narrowed values of a temporary."""

    machine: Machine
    semantics: ir.Semantics
    names: Mapping[str, Interval]
    temps: Mapping[str, Interval]
    nodes: Mapping[int, Interval] = field(repr=False)

    def interval(self, e: Expr) -> Interval:
        """(low, high) of a node of the semantics, or of any expression made of its names."""
        if id(e) in self.nodes:
            return self.nodes[id(e)]
        instruction = self.machine.instruction[self.semantics.instruction]
        evaluator = Evaluator(self.machine, instruction, self.semantics.lanes)
        return evaluator.bounds(e, replace(evaluator.start(), names=self.names, temps=self.temps))


def analyse(machine: Machine, semantics: ir.Semantics) -> Ranges:
    """The bounds of every node. Raises UserError E0220 to E0223, with all their places, for values without a proof."""
    walk = _Walk(machine, semantics)
    walk.block(semantics.body, walk.evaluator.start())
    if walk.errors:
        raise UserError(*dict.fromkeys(walk.errors))
    return Ranges(machine, semantics, walk.names, walk.temps, walk.nodes)


class _Walk:
    """Follows the statements; `proving` is off while a loop's body is followed only to learn how much it adds."""

    def __init__(self, machine: Machine, semantics: ir.Semantics) -> None:
        self.machine, self.semantics = machine, semantics
        self.names: dict[str, Interval] = {}
        self.temps: dict[str, Interval] = {}
        self.nodes: dict[int, Interval] = {}
        self.errors: list[Diagnostic] = []
        self.carried: dict[int, tuple[list[Key], list[Key]]] = {}
        self.passes = 0
        self.proving = True
        self.place: Span | None = None
        self.data = False
        self.evaluator = Evaluator(machine, machine.instruction[semantics.instruction], semantics.lanes, self._report)

    # proofs

    def _report(self, node: Expr, bounds: Interval, operands: tuple[Interval, ...]) -> None:
        if not self.proving:
            return
        self.nodes[id(node)] = hull(bounds, self.nodes.get(id(node), bounds))
        match node:
            case ex.Binary(op=("<<" | ">>")) | ir.RoundShift():
                self._prove("E0222", operands[1], (0, 63), "the shift amount", node, "bound it with max, min or a constraint")
                if isinstance(node, ir.RoundShift) and 0 < operands[1][1] <= 63:
                    half = 1 << (operands[1][1] - 1)
                    self._prove("E0221", (bounds[0], operands[0][1] + half), INT64, "the value before rounding", node, "")
            case ex.Binary(op=("//" | "%")) | ex.Call(function=ex.Name(id=("ceil_div" | "align"))) if operands[1][0] <= 0 <= operands[1][1]:
                self._error("E0223", "this may divide by zero", node.span, "forbid the value with a constraint")
            case ir.Load(access=access):
                self._lanes_fit(access, operands)
            case ir.Lookup(over=(lane,)):
                self._prove("E0224", operands[0], (0, self.semantics.lanes[lane] - 1), "the lane", node, "bound it with min, max or clip")
            case _:
                pass
        if self.data and not inside(bounds, INT64):
            self._prove("E0221", bounds, INT64, "this value", node, "narrow it first")

    def _prove(self, code: str, bounds: Interval, wanted: Interval, what: str, node: Expr, hint: str) -> None:
        if not inside(bounds, wanted):
            self._error(code, f"{what} lies in {_shown(bounds)}, past {_shown(wanted)}", node.span, hint)

    def _lanes_fit(self, access: ir.Access, bounds: Sequence[Interval]) -> None:
        """Every fixed lane is one that the element has; bounds: of all addresses, the lanes last."""
        fixed = [(lane, extent) for lane, extent in zip(access.lanes or (), access.view.element.dims, strict=False) if isinstance(lane, Expr)]
        for (lane, extent), found in zip(fixed, bounds[len(bounds) - len(fixed) :], strict=True):
            if self.proving:
                self._prove("E0224", found, (0, extent - 1), "the lane", lane, "bound it with % or a constraint")

    def _error(self, code: str, message: str, span: Span | None, hint: str) -> None:
        self.errors.append(Diagnostic(code, message, span or self.place, hint))

    def _value(self, e: Expr, known: Known, data: bool = False) -> Interval:
        self.data = data
        found = self.evaluator.bounds(e, known)
        self.data = False
        return found

    # statements

    def block(self, body: Sequence[ir.Stmt], known: Known) -> Known:
        """The bounds after the statements."""
        for stmt in body:
            self.place = stmt.span
            known = self._statement(stmt, known)
        return known

    def _statement(self, stmt: ir.Stmt, known: Known) -> Known:
        match stmt:
            case ir.For():
                return self._for(stmt, known)
            case ir.If(condition=condition, then=then, other=other):
                self._value(condition, known)
                paths = [(then, self.evaluator.assume(condition, True, known)), (other, self.evaluator.assume(condition, False, known))]
                ends = [self.block(body, path) for body, path in paths if path is not None]
                return ends[0] if len(ends) == 1 else ends[0].join(ends[1]) if ends else known
            case ir.Let(name=name, value=value):
                return self._named(name, self._value(value, known), known)
            case ir.SetTemp():
                return self._set_temp(stmt, known)
            case ir.Store():
                self._store(stmt, known)
                return known.after_store()
            case ir.Latch(index=index):
                self._value(index, known)
                return known
            case _:
                return known

    def _named(self, name: str, bounds: Interval, known: Known) -> Known:
        if self.proving:
            self.names[name] = hull(bounds, self.names.get(name, bounds))
        return known.with_name(name, bounds)

    def _set_temp(self, stmt: ir.SetTemp, known: Known) -> Known:
        kind = self.semantics.temps[stmt.name]
        value = self._value(stmt.value, known, data=True)
        if stmt.accumulate:
            old = known.temps.get(stmt.name, type_bounds(kind.type))
            value = (old[0] + value[0], old[1] + value[1])
        if self.proving:
            self._fits(
                value, kind.type.low, kind.type.high, kind.overflow, f"'{stmt.name}' is {kind.type}", stmt, "declare it wrap(...) or saturate(...)"
            )
            value = narrowed(value, type_bounds(kind.type), kind.overflow)
            self.temps[stmt.name] = hull(value, self.temps.get(stmt.name, value))
        return known.with_temp(stmt.name, narrowed(value, type_bounds(kind.type), kind.overflow) if kind.overflow != "error" else value)

    def _store(self, stmt: ir.Store, known: Known) -> None:
        access = stmt.access
        self._lanes_fit(access, tuple(self._value(index, known) for index in addresses(access)))
        value = self._value(stmt.value, known, data=access.lanes is not None)
        if access.lanes is None or not self.proving:
            return
        kind, memory = access.view.element.scalar, self.machine.memory[access.view.memory]
        if stmt.accumulate:
            value = (kind.low + value[0], kind.high + value[1])
        self._fits(
            value, kind.low, kind.high, memory.overflow, f"'{access.view.name}' is {kind}", stmt, "narrow it, or declare the memory's overflow"
        )

    def _fits(self, value: Interval, low: int, high: int, overflow: str, what: str, stmt: ir.SetTemp | ir.Store, hint: str) -> None:
        if overflow == "error" and not inside(value, (low, high)):
            self._error("E0220", f"{what} and the value lies in {_shown(value)}", stmt.span, hint)
        elif not inside(value, INT64):
            self._error("E0221", f"the sum lies in {_shown(value)}, past {_shown(INT64)}", stmt.span, "narrow it first")

    # loops

    def _for(self, stmt: ir.For, known: Known) -> Known:
        start, stop = self._value(stmt.start, known), self._value(stmt.stop, known)
        span, times = (start[0], stop[1] - 1), stop[1] - start[0]
        if times <= 0:
            return known
        if id(stmt) not in self.carried:
            self.carried[id(stmt)] = carried(stmt.body)
        sums, others = self.carried[id(stmt)]
        inner = _enter(stmt, span, known)
        step = self._steps(stmt, inner, sums, others)
        for key in sums:
            inner = _put(inner, key, self._kept(key, accumulated(_get(known, key), step[key], times - 1)))
        inner = self._settle(stmt, inner, others)
        if self.proving:
            self.names[stmt.var] = hull(span, self.names.get(stmt.var, span))
        end = self.block(stmt.body, inner)
        return end if start[1] < stop[0] else end.join(known)

    def _steps(self, stmt: ir.For, inner: Known, sums: Sequence[Key], others: Sequence[Key]) -> dict[Key, Interval]:
        """How much one iteration adds to each sum, learnt by following the body from zero."""
        if not sums or self.passes > MOST_PASSES:
            return {key: self._widest(key) for key in sums}
        for key in sums:
            inner = _put(inner, key, (0, 0))
        for key in others:
            inner = _put(inner, key, self._widest(key))
        end = self._quietly(stmt.body, inner)
        return {key: _get(end, key) for key in sums}

    def _settle(self, stmt: ir.For, inner: Known, others: Sequence[Key]) -> Known:
        """Bounds at the start of every iteration for the variables that an iteration hands to the next."""
        for _ in range(ROUNDS if others and self.passes <= MOST_PASSES else 0):
            end = self._quietly(stmt.body, inner)
            grown = [key for key in others if not inside(_get(end, key), _get(inner, key))]
            if not grown:
                return inner
            for key in grown:
                inner = _put(inner, key, hull(_get(inner, key), _get(end, key)))
        for key in others:
            inner = _put(inner, key, self._widest(key))
        return inner

    def _quietly(self, body: Sequence[ir.Stmt], known: Known) -> Known:
        self.passes += 1
        before, self.proving = self.proving, False
        place = self.place
        end = self.block(body, known)
        self.proving, self.place = before, place
        return end

    def _kept(self, key: Key, bounds: Interval) -> Interval:
        """Bounds of a sum that a temporary keeps by wrapping or saturating."""
        kind = self.semantics.temps[key[0]] if key[1] else None
        return narrowed(bounds, type_bounds(kind.type), kind.overflow) if kind and kind.overflow != "error" else bounds

    def _widest(self, key: Key) -> Interval:
        name, temp = key
        return type_bounds(self.semantics.temps[name].type) if temp else EVERYTHING


def _enter(stmt: ir.For, span: Interval, known: Known) -> Known:
    """Before an iteration: names that the body assigns lose the bounds that conditions gave them."""
    gone = assigned((stmt,))
    return known.with_name(stmt.var, span).after_store().without(gone)


def _get(known: Known, key: Key) -> Interval:
    name, temp = key
    return (known.temps if temp else known.names).get(name, (0, 0))


def _put(known: Known, key: Key, bounds: Interval) -> Known:
    name, temp = key
    return known.with_temp(name, bounds) if temp else known.with_name(name, bounds)


def _shown(bounds: Interval) -> str:
    return f"{_number(bounds[0])}..{_number(bounds[1])}"


def _number(value: int) -> str:
    if abs(value) < 1 << 20:
        return str(value)
    if abs(value) >= 1 << 999:
        return "unbounded"
    size, sign = abs(value), "-" if value < 0 else ""
    if size & (size - 1) == 0 or size & (size + 1) == 0:
        return f"{sign}2**{size.bit_length() - 1}" if size & (size - 1) == 0 else f"{sign}2**{size.bit_length()}{'+' if sign else '-'}1"
    return f"about {sign}2**{size.bit_length()}"
