"""Expressions of the semantics language: every name resolved, every function put in place of its call."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.access import Bound, Scope, dotted, lane_names, make_access, require_place
from toolchain.isa.semantics.floating import CALLS, Floating, within
from toolchain.isa.semantics.floating import REDUCTIONS as REDUCTIONS_OF_FLOATS
from toolchain.isa.semantics.text import Function
from toolchain.isa.semantics.traverse import nodes
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, UserError, fail, nearest
from toolchain.spec.evaluate import BUILT_IN, FUNCTIONS
from toolchain.spec.expr import Expr
from toolchain.spec.model import Memory, ScalarType
from toolchain.spec.model.types import FLOATS, FloatType, scalar_of

REDUCTIONS = {"sum": "+", "reduce_max": "max", "reduce_min": "min"}
MAX_TREE = 96
MAX_NODES = 20_000
MAX_CALLS = 8


@dataclass
class Expressions:
    """Resolves expressions of one instruction in its scope. calls: functions being put in place, outermost first.

    lanes: those that the current statement names, whose positions its value may use.
    """

    scope: Scope
    functions: Mapping[str, Function]
    calls: list[str] = field(default_factory=list[str])
    lanes: frozenset[str] = frozenset()
    sizes: dict[int, tuple[int, int, Expr]] = field(default_factory=dict[int, tuple[int, int, Expr]])

    @property
    def floating(self) -> Floating:
        """The types of expressions, and operations on floating ones."""
        return Floating(self.scope)

    def scalar(self, e: Expr, bound: Bound | None = None) -> Expr:
        """An address, a bound or a condition. Raises UserError E0211 where tensor data takes part, E0226 for a floating value."""
        return self.floating.integer(self.require_scalar(self.resolve(e, bound), e.span), e.span)

    def require_scalar(self, found: Expr, span: Span | None) -> Expr:
        """The resolved expression. Raises UserError E0211 where tensor data takes part."""
        for part in nodes(found):
            if isinstance(part, ir.Load | ir.Temp):
                raise fail("E0211", "tensor data cannot decide an address, a bound or a branch", part.span or span)
            if isinstance(part, ir.Float | ir.ToFloat | ir.ToInteger):
                hint = "write it where the value is used, or keep it in a lane temporary"
                raise fail("E0211", "floating arithmetic cannot decide an address, a bound or a branch", part.span or span, hint)
            if isinstance(part, ir.Lane):
                raise _no_number(part.name, "a lane", part.span or span)
            if isinstance(part, ir.Reduce):
                raise fail("E0214", "this reduces over nothing", part.span or span, "no lane is free inside it")
        return found

    def value(self, e: Expr, written: Iterable[str] = ()) -> Expr:
        """A value that a statement writes lane by lane, to these lanes: the name of a lane is its position."""
        self.lanes = frozenset((*written, *lane_names(e, self.scope.temps)))
        found = self.resolve(e)
        self.lanes = frozenset()
        return found

    def resolve(self, e: Expr, bound: Bound | None = None) -> Expr:
        """The expression over the IR's leaves. bound: inside a function, the expressions behind its names."""
        found = ex.rewrite(e, lambda inner: self._leaf(inner, bound))
        self._measure(found, e.span)
        return found

    def _measure(self, e: Expr, span: Span | None) -> tuple[int, int]:
        """(nodes, depth), so that functions calling functions cannot grow without bound."""
        if id(e) not in self.sizes:
            parts = [self._measure(child, span) for child in ex.children(e)]
            size, depth = 1 + sum(p[0] for p in parts), 1 + max((p[1] for p in parts), default=0)
            if size > MAX_NODES or depth > MAX_TREE:
                raise fail("E0212", "this expression is too large once its functions are in place", span, "assign a part of it to a name first")
            self.sizes[id(e)] = size, depth, e
        return self.sizes[id(e)][:2]

    def _leaf(self, e: Expr, bound: Bound | None) -> Expr | None:
        match e:
            case ex.Name():
                return self._name(e, bound)
            case ex.Member():
                return self._member(e, bound)
            case ex.Index():
                return self._element(e, bound)
            case ex.Call():
                return self._call(e, bound)
            case ex.Binary() | ex.Unary() | ex.Compare() | ex.Logic() | ex.Choose():
                return self.floating.lower(within(e, lambda inner: self._leaf(inner, bound)))
            case _:
                return None

    # names and members

    def _name(self, e: ex.Name, bound: Bound | None) -> Expr:
        scope, name = self.scope, e.id
        if bound is not None and name in bound:
            return bound[name]
        if bound is None and name in scope.arguments:
            return scope.arguments[name]
        if bound is None and name in scope.loops:
            return ir.Var(scope.loops[name], span=e.span)
        if bound is None and name in scope.lets:
            scope.require_assigned(name, e.span)
            return ir.Var(scope.lets[name].unique, span=e.span)
        if bound is None and name in scope.fields:
            return ir.FieldRef(name, span=e.span)
        if name in scope.machine.params:
            return ex.Const(scope.machine.params[name], span=e.span)
        if any(level.name == name for level in scope.machine.levels):
            require_place(scope.machine, [name], e.span)
            return ir.Place(name, span=e.span)
        if bound is None and name in self.lanes and not scope.taken(name):
            return ir.Lane(name, span=e.span)
        raise self._unknown(e, bound)

    def _unknown(self, e: ex.Name, bound: Bound | None) -> Exception:
        scope, name = self.scope, e.id
        if bound is not None and (name in scope.fields or name in scope.loops or name in scope.lets):
            return fail("E0202", f"unknown name '{name}'", e.span, f"pass '{name}' to the function")
        if name in scope.temps or name in scope.lanes or name in scope.machine.view or name in scope.records:
            kind = "a temporary" if name in scope.temps else "a lane" if name in scope.lanes else "a record" if name in scope.records else "a memory"
            return _no_number(name, kind, e.span)
        return fail("E0202", f"unknown name '{name}'", e.span, nearest(name, [*(bound or {}), *scope.candidates()]))

    def _member(self, e: ex.Member, bound: Bound | None) -> Expr:
        scope, base, name = self.scope, e.base, e.name
        if isinstance(base, ex.Name) and (base.id, name) in scope.machine.choices:
            return ex.Const(scope.machine.choices[base.id, name], span=e.span)
        if isinstance(base, ex.Name) and bound is None and base.id in scope.records:
            scope.require_assigned(base.id, base.span)
            return self._record(scope.records[base.id], name, e)
        if isinstance(base, ex.Name) and self.latches(base.id):
            return self._latched(base.id, ex.Const(0), name, e)
        if isinstance(base, ex.Index):
            if isinstance(base.base, ex.Name) and self.latches(base.base.id) and len(base.index) == 1:
                return self._latched(base.base.id, self.scalar(base.index[0], bound), name, e)
            return self._record(make_access(scope, base, self.scalar, bound), name, e)
        raise fail("E0202", f"nothing here has a member '{name}'", e.span)

    def latches(self, name: str) -> bool:
        """Whether a name is a register that latches an instruction's fields."""
        return name in self.scope.machine.memory and bool(self.scope.machine.memory[name].latches)

    def _latched(self, register: str, index: Expr, name: str, e: Expr) -> Expr:
        machine = self.scope.machine
        memory = machine.memory[register]
        known = [f.name for f in machine.latched(memory)]
        if name not in known:
            raise fail("E0202", f"{' and '.join(memory.latches)} has no field '{name}'", e.span, nearest(name, known))
        self._require_register(memory, index, e.span)
        return ir.RegisterRead(register, index, name, span=e.span)

    def _require_register(self, memory: Memory, index: Expr, span: Span | None) -> None:
        if isinstance(index, ex.Const) and not 0 <= index.value < memory.depths[0]:
            raise fail("E0206", f"'{memory.name}' holds {memory.depths[0]}, there is no {index.value}", span)

    def _record(self, access: ir.Access, member: str, e: Expr) -> Expr:
        known = [f.name for f in access.view.element.record]
        if member not in known:
            raise fail("E0202", f"'{access.view.name}' has no member '{member}'", e.span, nearest(member, known))
        self._require_control(access, e.span)
        return ir.ControlRead(access, member, span=e.span)

    def _require_control(self, access: ir.Access, span: Span | None) -> None:
        memory = self.scope.machine.memory[access.view.memory]
        if not memory.control:
            what = f"'{memory.name}' holds tensor data, which no address can use"
            raise fail("E0211", what, span, "a memory that addresses read declares 'control: true'")

    # elements

    def _element(self, e: ex.Index, bound: Bound | None) -> Expr:
        scope = self.scope
        if isinstance(e.base, ex.Name) and (bound is None or e.base.id not in bound):
            name = e.base.id
            if name in scope.temps and bound is None:
                return self._temp(name, e)
            memory = scope.machine.memory.get(name)
            if memory and memory.host and len(e.index) == 1:
                index = self.scalar(e.index[0], bound)
                self._require_register(memory, index, e.span)
                return ir.RegisterRead(name, index, "", span=e.span)
            if memory and memory.kind == "register":
                raise fail("E0202", f"'{name}' holds fields, not numbers", e.span, f"read one of them: {name}[...].field")
        access = make_access(scope, e, self.scalar, bound)
        if scope.machine.memory[access.view.memory].control and access.lanes == ():
            return ir.ControlRead(access, "", span=e.span)
        return ir.Load(access, span=e.span)

    def _temp(self, name: str, e: ex.Index) -> Expr:
        scope = self.scope
        scope.require_assigned(name, e.span)
        lanes = tuple(lane.id if isinstance(lane, ex.Name) else "" for lane in e.index)
        if lanes != scope.temps[name].lanes:
            what = f"'{name}' has the lanes [{', '.join(scope.temps[name].lanes)}]"
            raise fail("E0206", what, e.span, "a temporary is read with the names it was declared with")
        return ir.Temp(name, lanes, span=e.span)

    # calls

    def _call(self, e: ex.Call, bound: Bound | None) -> Expr:
        name = e.function.id if isinstance(e.function, ex.Name) else ""
        if name in self.functions:
            results = self.inline(e, bound)
            if len(results) != 1:
                raise fail("E0208", f"{name} returns {len(results)} values", e.span, "assign them to names first")
            return results[0]
        rule = next((r for r in self.scope.machine.rules if r.name == name), None)
        if rule and rule.rounding:
            return self._round(e, rule.rounding, bound)
        if rule and rule.type:
            self._arity(e, 1)
            low, high = rule.type.low if rule.low is None else rule.low, rule.type.high if rule.high is None else rule.high
            return ir.Narrow(self.floating.integer(self.resolve(e.args[0], bound), e.span), rule.type, rule.overflow, low, high, span=e.span)
        return self._built_in(name, e, bound)

    def _built_in(self, name: str, e: ex.Call, bound: Bound | None) -> Expr:
        if name.startswith("round_") and name in BUILT_IN:
            return self._round(e, name.removeprefix("round_"), bound)
        if name in ("wrap", "saturate"):
            return self._narrow(name, e, bound)
        if name == "from_bits":
            self._arity(e, 2)
            return self.floating.from_bits(self.resolve(e.args[0], bound), self._type(e.args[1]), e.span)
        values = tuple(self.resolve(a, bound) for a in e.args)
        if name in CALLS:
            self._arity(e, CALLS[name])
            return self.floating.call(name, values, e.span)
        if name in REDUCTIONS_OF_FLOATS:
            self._arity(e, 2 if name in ("sum_tree", "dot_exact") else 1)
            return self.floating.reduction(name, values, e.span)
        if name in FLOATS or name == "to_bits":
            self._arity(e, 1)
            return self.floating.to_format(values[0], FLOATS[name], e.span) if name in FLOATS else self.floating.to_bits(values[0], e.span)
        if name == "lookup":
            self._arity(e, 2)
            return ir.Lookup("at", values[0], (), self.floating.integer(values[1], e.span), span=e.span)
        if found := self.floating.plain(name, values, e.span):
            self._arity(e, 1)
            return found
        if name in ("min", "max") and values:
            return ir.Extreme(name, values, span=e.span)
        if name == "abs":
            self._arity(e, 1)
            return ir.Extreme("max", (values[0], ex.Unary("-", values[0], span=e.span)), span=e.span)
        if name == "dot":
            self._arity(e, 2)
            return ir.Reduce("+", ex.Binary("*", *values, span=e.span), (), span=e.span)
        if name in REDUCTIONS:
            self._arity(e, 1)
            return ir.Reduce(REDUCTIONS[name], values[0], (), span=e.span)
        if name in FUNCTIONS:
            self._arity(e, FUNCTIONS[name][0] or max(len(values), 1))
            return ex.Call(e.function, values, span=e.span)
        known = [*self.functions, *(r.name for r in self.scope.machine.rules), *FUNCTIONS, *BUILT_IN]
        raise fail("E0209", f"unknown function '{dotted(e.function) or 'this expression'}'", e.span, nearest(name, known))

    def _arity(self, e: ex.Call, wanted: int) -> None:
        if len(e.args) != wanted:
            name = e.function.id if isinstance(e.function, ex.Name) else "this"
            raise fail("E0210", f"{name} takes {wanted} argument{'s' * (wanted != 1)}, not {len(e.args)}", e.span)

    def _round(self, e: ex.Call, rounding: str, bound: Bound | None) -> Expr:
        self._arity(e, 2)
        value = self.resolve(e.args[0], bound)
        if rounding == "truncate" or self.floating.type_of(value):
            return self.floating.rounded(value, rounding, self._type(e.args[1]), e.span)
        return ir.RoundShift(value, self.floating.integer(self.resolve(e.args[1], bound), e.span), rounding, span=e.span)

    def _type(self, e: Expr) -> ScalarType:
        return scalar_of(e, self.scope.machine.params, stored=False)

    def _narrow(self, overflow: str, e: ex.Call, bound: Bound | None) -> Expr:
        """`wrap(value, i8)`, `saturate(value, i8)`, `saturate(value, i8, low, high)`."""
        self._arity(e, 2 if overflow == "wrap" or len(e.args) < 3 else 4)
        value, of, *limits = list(e.args)
        kind = self._type(of)
        if isinstance(kind, FloatType):
            if overflow == "wrap" or limits:
                raise fail("E0226", f"a value becomes {kind} by {kind}(x) or saturate(x, {kind})", e.span)
            return self.floating.to_format(self.resolve(value, bound), kind, e.span, saturate=True)
        low, high = [_number(self.scalar(a, bound)) for a in limits] if limits else (kind.low, kind.high)
        return ir.Narrow(self.floating.integer(self.resolve(value, bound), e.span), kind, overflow, low, high, span=e.span)

    def inline(self, e: ex.Call, bound: Bound | None, keep: Callable[[str, Expr], Expr] = lambda _, value: value) -> tuple[Expr, ...]:
        """The results of the called function; `keep` may give a local name a variable of its own. Raises UserError E0210, E0212."""
        name = e.function.id if isinstance(e.function, ex.Name) else ""
        function = self.functions[name]
        self._arity(e, len(function.params))
        if name in self.calls or len(self.calls) >= MAX_CALLS:
            why = f"{name} calls itself" if name in self.calls else f"functions call functions more than {MAX_CALLS} deep"
            raise fail("E0212", why, e.span)
        inner = dict(zip(function.params, (self.resolve(a, bound) for a in e.args), strict=True))
        self.calls.append(name)
        for local, value in function.lets:
            inner[local] = keep(f"{name}_{local}", self.resolve(value, inner))
        results = tuple(self.resolve(r, inner) for r in function.results)
        self.calls.pop()
        return results


def _no_number(name: str, kind: str, span: Span | None) -> UserError:
    return fail("E0202", f"'{name}' is {kind}, not a number", span)


def _number(e: Expr) -> int:
    match e:
        case ex.Const(value=value):
            return value
        case ex.Unary(op="-", value=ex.Const(value=value)):
            return -value
        case _:
            raise fail("E0206", "a bound of saturate is a number", e.span)
