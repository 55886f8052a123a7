"""Reads the semantics of an instruction: a subset of Python syntax, parsed with `ast`, resolved into toolchain/isa/ir.py."""

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from toolchain.isa import ir
from toolchain.isa.ranges import analyse
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail
from toolchain.spec.evaluate import FUNCTIONS
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine, ScalarType, Text, View
from toolchain.spec.suggest import nearest
from toolchain.spec.types import parse_scalar

ROUNDING = ("half_up", "half_even", "half_away", "floor")


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A machine compared by identity: its mappings have no hash, and one Machine object never changes."""

    machine: Machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.machine is other.machine

    def __hash__(self) -> int:
        return id(self.machine)


def machine_semantics(machine: Machine) -> Mapping[str, ir.Semantics]:
    """The resolved semantics of every instruction by name, read and proved once for each Machine object.

    Raises UserError E02xx: E0220 to E0223 where a value may pass its range (toolchain/isa/ranges.py).
    """
    return _machine_semantics(_Same(machine))


@functools.lru_cache(maxsize=32)
def _machine_semantics(key: _Same) -> Mapping[str, ir.Semantics]:
    found = {i.name: read_semantics(key.machine, i) for i in key.machine.instructions}
    for semantics in found.values():
        analyse(key.machine, semantics)
    return MappingProxyType(found)


def read_semantics(machine: Machine, instruction: Instruction) -> ir.Semantics:
    """The resolved semantics of one instruction. Raises UserError E02xx with the position in the machine's file."""
    return _Reader(machine, instruction).read()


@dataclass
class _Reader:
    """Resolves one instruction; holds the names that are in scope while it walks the text."""

    machine: Machine
    instruction: Instruction
    scalars: dict[str, str] = field(default_factory=dict[str, str])
    records: dict[str, ir.Access] = field(default_factory=dict[str, ir.Access])
    temps: dict[str, ir.TempType] = field(default_factory=dict[str, ir.TempType])
    lanes: dict[str, int] = field(default_factory=dict[str, int])
    accesses: list[ir.Access] = field(default_factory=list[ir.Access])
    loops: dict[str, str] = field(default_factory=dict[str, str])
    used: set[str] = field(default_factory=set[str])
    loop_depth: int = 0
    depths: dict[str, int] = field(default_factory=dict[str, int])
    fresh: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    text: Text | None = None
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict[str, ast.FunctionDef])

    def read(self) -> ir.Semantics:
        if self.machine.functions:
            for node in self._parse(self.machine.functions).body:
                if not isinstance(node, ast.FunctionDef):
                    raise fail("E0203", "only functions stand here", self._span(node))
                self.functions[node.name] = node
        body = self._block(self._parse(self.instruction.semantics).body)
        return ir.Semantics(self.instruction.name, body, self.lanes, self.temps, tuple(self.accesses))

    # positions

    def _parse(self, text: Text) -> ast.Module:
        self.text = text
        try:
            return ast.parse(text.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line, column = getattr(error, "lineno", 1) or 1, getattr(error, "offset", 1) or 1
            raise fail("E0201", "cannot read the semantics here", self._locate(line, column - 1)) from None

    def _locate(self, line: int, column: int) -> Span:
        assert self.text
        start = self.text.span
        return Span(start.source, start.line + line, self.text.indent + column + 1)

    def _span(self, node: ast.stmt | ast.expr) -> Span:
        return self._locate(node.lineno, node.col_offset)

    # statements

    def _block(self, nodes: list[ast.stmt]) -> tuple[ir.Stmt, ...]:
        return tuple(stmt for node in nodes for stmt in self._statement(node))

    def _statement(self, node: ast.stmt) -> list[ir.Stmt]:
        span = self._span(node)
        match node:
            case ast.Pass():
                return []
            case ast.For(orelse=[]):
                return [self._loop(node)]
            case ast.If(test=test, body=body, orelse=other):
                condition = self._scalar(test)
                if isinstance(folded := fold(condition), ex.Const):
                    return list(self._block(body if folded.value else other))
                return [ir.If(condition, self._block(body), self._block(other), span=span)]
            case ast.AnnAssign(target=ast.Subscript(value=ast.Name(id=name), slice=lanes), annotation=kind, value=value) if value:
                return [self._declare(name, lanes, kind, value, span)]
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, value, False, span)
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                return self._assign(target, value, True, span)
            case _:
                raise fail("E0203", f"'{ast.unparse(node).splitlines()[0]}' is not part of the semantics language", span)

    def _loop(self, node: ast.For) -> ir.Stmt:
        """`for i in range(a), j in range(b):` reads in Python as one loop over a tuple with comparisons in it."""
        heads: list[tuple[ast.expr, ast.expr]] = []
        target = node.target
        parts = node.iter.elts if isinstance(node.iter, ast.Tuple) else [node.iter]
        for position, part in enumerate(parts):
            if position == 0:
                heads.append((target, part))
            elif isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.In):
                heads.append((part.left, part.comparators[0]))
            else:
                raise fail("E0204", "a loop reads 'for i in range(n), j in range(m):'", self._span(node))
        return self._nest(heads, node)

    def _nest(self, heads: list[tuple[ast.expr, ast.expr]], node: ast.For) -> ir.Stmt:
        (target, over), rest = heads[0], heads[1:]
        match target, over:
            case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=[stop], keywords=[]):
                start, end = ex.Const(0), self._scalar(stop)
            case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=[first, stop], keywords=[]):
                start, end = self._scalar(first), self._scalar(stop)
            case _:
                raise fail("E0204", "a loop reads 'for i in range(n), j in range(m):'", self._span(node))
        self._new_name(name, self._span(node))
        self.scalars[name] = "loop"
        unique = self.loops[name] = name if name not in self.used else f"{name}_{next(self.fresh)}"
        self.used.add(unique)
        self.loop_depth += 1
        body = (self._nest(rest, node),) if rest else self._block(node.body)
        self.loop_depth -= 1
        del self.scalars[name], self.loops[name]
        return ir.For(unique, start, end, body, span=self._span(node))

    def _new_name(self, name: str, span: Span) -> None:
        taken = {f.name for f in self.instruction.fields} | set(self.machine.view) | {v.name for v in self.machine.levels}
        if name in taken or name in self.scalars or name in self.temps:
            raise fail("E0205", f"the name '{name}' is taken", span, "loop, lane and local names must be new")

    def _declare(self, name: str, lanes: ast.expr, kind: ast.expr, value: ast.expr, span: Span) -> ir.Stmt:
        overflow, text = "error", ast.unparse(kind)
        if isinstance(kind, ast.Call) and isinstance(kind.func, ast.Name) and kind.func.id in ("wrap", "saturate") and len(kind.args) == 1:
            overflow, text = kind.func.id, ast.unparse(kind.args[0])
        names = self._lane_names(lanes)
        right = close_reductions(self._data(value), names)
        kind_of = ir.TempType(parse_scalar(text, {}, lambda line, column: span), overflow, names)
        if self.temps.get(name, kind_of) != kind_of:
            raise fail("E0205", f"the name '{name}' is taken", span)
        self.temps[name] = kind_of
        return ir.SetTemp(name, names, right, False, span=span)

    def _lane_names(self, node: ast.expr) -> tuple[str, ...]:
        items = node.elts if isinstance(node, ast.Tuple) else [node]
        if not all(isinstance(item, ast.Name) for item in items):
            raise fail("E0206", "a temporary's lanes are names", self._span(node))
        return tuple(item.id for item in items if isinstance(item, ast.Name))

    def _assign(self, target: ast.expr, value: ast.expr, accumulate: bool, span: Span) -> list[ir.Stmt]:
        match target:
            case ast.Tuple(elts=names) if not accumulate and isinstance(value, ast.Call):
                return self._assign_tuple(names, value, span)
            case ast.Name(id=name) if name in self.machine.memory and not accumulate:
                return [self._latch(name, ex.Const(0), value, span)]
            case ast.Subscript(value=ast.Name(id=name), slice=index) if self._latches(name) and not accumulate:
                return [self._latch(name, self._scalar(index), value, span)]
            case ast.Name(id=name):
                if accumulate:
                    value = ast.copy_location(ast.BinOp(ast.copy_location(ast.Name(name), target), ast.Add(), value), target)
                return self._let(name, value, span)
            case ast.Subscript(value=ast.Name(id=name), slice=lanes) if name in self.temps:
                names = self._lane_names(lanes)
                return [ir.SetTemp(name, names, close_reductions(self._data(value), names), accumulate, span=span)]
            case ast.Subscript():
                access = self._access(target)
                kept = tuple(lane for lane in access.lanes or () if isinstance(lane, str))
                right = close_reductions(self._data(value), kept)
                return [ir.Store(access, right, accumulate, span=span)]
            case _:
                raise fail("E0203", "cannot assign to this", span)

    def _latches(self, name: str) -> bool:
        return name in self.machine.memory and bool(self.machine.memory[name].latches)

    def _latch(self, name: str, index: Expr, value: ast.expr, span: Span) -> ir.Stmt:
        if not self._latches(name) or not (isinstance(value, ast.Name) and value.id == "fields"):
            raise fail("E0207", f"'{name}' takes 'fields' only, and only if it is a register that latches", span)
        return ir.Latch(name, index, span=span)

    def _let(self, name: str, value: ast.expr, span: Span) -> list[ir.Stmt]:
        if isinstance(value, ast.Subscript) and (view := self._view_of(value)) and view.element.record:
            self._new_name(name, span) if name not in self.records else None
            self.records[name] = self._access(value)
            return []
        right = self._scalar(value)
        carried = self.scalars.get(name) == "let" and self.depths[name] < self.loop_depth
        if self.scalars.get(name) != "let":
            self._new_name(name, span)
            self.scalars[name], self.depths[name] = "let", self.loop_depth
        return [ir.Let(name, right, carried, span=span)]

    def _assign_tuple(self, names: list[ast.expr], call: ast.Call, span: Span) -> list[ir.Stmt]:
        before, results = self._inline(call, span)
        if len(results) != len(names):
            raise fail("E0208", f"{len(results)} values for {len(names)} names", span)
        for target, result in zip(names, results, strict=True):
            if not isinstance(target, ast.Name):
                raise fail("E0203", "cannot assign to this", span)
            if self.scalars.get(target.id) != "let":
                self._new_name(target.id, span)
                self.scalars[target.id], self.depths[target.id] = "let", self.loop_depth
            before.append(ir.Let(target.id, result, span=span))
        return before

    # functions

    def _inline(self, call: ast.Call, span: Span) -> tuple[list[ir.Stmt], list[Expr]]:
        """The function's local assignments as Lets under fresh names, and the values it returns."""
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name not in self.functions:
            raise fail("E0209", f"unknown function '{ast.unparse(call.func)}'", span, nearest(name, self.functions))
        function = self.functions[name]
        params = [a.arg for a in function.args.args]
        if len(params) != len(call.args):
            raise fail("E0210", f"{name} takes {len(params)} arguments, not {len(call.args)}", span)
        bound = {p: self._any(a) for p, a in zip(params, call.args, strict=True)}
        saved, self.text = self.text, self.machine.functions
        try:
            return self._body(function, bound)
        finally:
            self.text = saved

    def _body(self, function: ast.FunctionDef, bound: dict[str, Expr]) -> tuple[list[ir.Stmt], list[Expr]]:
        lets: list[ir.Stmt] = []
        for node in function.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=local)], value=value):
                    unique = f"{function.name}_{local}_{next(self.fresh)}"
                    self.scalars[unique], self.depths[unique] = "let", self.loop_depth
                    lets.append(ir.Let(unique, self._resolve(value, bound), span=self._span(node)))
                    bound[local] = ir.Var(unique)
                case ast.Return(value=ast.Tuple(elts=values)):
                    return lets, [self._resolve(v, bound) for v in values]
                case ast.Return(value=ast.expr() as value):
                    return lets, [self._resolve(value, bound)]
                case _:
                    raise fail("E0203", "a function holds assignments and a return", self._span(node))
        raise fail("E0203", f"{function.name} returns nothing", self._span(function))

    # expressions

    def _resolve(self, node: ast.expr, bound: dict[str, Expr] | None = None) -> Expr:
        return self._names(ex.convert(node, self._locate), bound or {})

    def _scalar(self, node: ast.expr) -> Expr:
        resolved = self._resolve(node)
        if any(isinstance(e, ir.Load | ir.Temp) for e in ex.walk(resolved)):
            raise fail("E0211", "tensor data cannot decide an address, a bound or a branch", self._span(node))
        return resolved

    def _data(self, node: ast.expr) -> Expr:
        return self._resolve(node)

    _any = _resolve

    def _names(self, e: Expr, bound: dict[str, Expr]) -> Expr:
        def change(inner: Expr) -> Expr | None:
            return self._leaf(inner, bound)

        return ex.rewrite(e, change)

    def _leaf(self, e: Expr, bound: dict[str, Expr]) -> Expr | None:
        match e:
            case ex.Name(id=name):
                return bound[name] if name in bound else self._name(e)
            case ex.Member(base=base, name=name):
                return self._member(base, name, e, bound)
            case ex.Index():
                return self._element(e, bound)
            case ex.Call(function=function, args=args):
                return self._call(function, args, e, bound)
            case _:
                return None

    def _name(self, e: ex.Name) -> Expr:
        name = e.id
        if name in self.scalars:
            return ir.Var(self.loops.get(name, name), span=e.span)
        if name in self.machine.params:
            return ex.Const(self.machine.params[name], span=e.span)
        if any(f.name == name for f in self.instruction.fields):
            return ir.FieldRef(name, span=e.span)
        if any(level.name == name for level in self.machine.levels):
            return ir.Place(name, span=e.span)
        known = [*self.scalars, *self.temps, *self.machine.params, *(f.name for f in self.instruction.fields), *self.machine.view]
        raise fail("E0202", f"unknown name '{name}'", e.span, nearest(name, known))

    def _member(self, base: Expr, name: str, e: Expr, bound: dict[str, Expr]) -> Expr:
        if isinstance(base, ex.Name) and base.id in self.records:
            return self._control(self.records[base.id], name, e)
        if isinstance(base, ex.Name) and self._latches(base.id):
            return self._latched(base.id, ex.Const(0), name, e)
        if isinstance(base, ex.Name) and (base.id, name) in self.machine.choices:
            return ex.Const(self.machine.choices[base.id, name], span=e.span)
        if isinstance(base, ex.Index) and isinstance(base.base, ex.Name):
            inner = base.base.id
            if self._latches(inner):
                return self._latched(inner, self._names(base.index[0], bound), name, e)
            if inner in self.machine.view and self.machine.view[inner].element.record:
                return self._control(self._make_access(base, bound), name, e)
        raise fail("E0202", f"nothing here has a member '{name}'", e.span)

    def _latched(self, register: str, index: Expr, name: str, e: Expr) -> Expr:
        source = self.machine.instruction[self.machine.memory[register].latches]
        if all(f.name != name for f in source.fields):
            raise fail("E0202", f"{source.name} has no field '{name}'", e.span, nearest(name, [f.name for f in source.fields]))
        return ir.RegisterRead(register, index, name, span=e.span)

    def _control(self, access: ir.Access, member: str, e: Expr) -> Expr:
        if all(f.name != member for f in access.view.element.record):
            raise fail("E0202", f"'{access.view.name}' has no member '{member}'", e.span)
        return ir.ControlRead(access, member, span=e.span)

    def _element(self, e: ex.Index, bound: dict[str, Expr]) -> Expr:
        if isinstance(e.base, ex.Name):
            name = e.base.id
            if name in self.temps:
                lanes = tuple(i.id for i in e.index if isinstance(i, ex.Name))
                return ir.Temp(name, lanes, span=e.span)
            if name in self.machine.memory and self.machine.memory[name].host:
                return ir.RegisterRead(name, self._names(e.index[0], bound), "", span=e.span)
        access = self._make_access(e, bound)
        memory = self.machine.memory[access.view.memory]
        if memory.control and access.view.name == memory.name and not access.view.element.record and access.lanes is None:
            return ir.ControlRead(access, "", span=e.span)
        return ir.Load(access, span=e.span)

    def _call(self, function: Expr, args: tuple[Expr, ...], e: Expr, bound: dict[str, Expr]) -> Expr:
        name = function.id if isinstance(function, ex.Name) else ""
        values = tuple(self._names(a, bound) for a in args)
        rules = {r.name: r for r in self.machine.rules}
        if name in ("min", "max"):
            return ir.Extreme(name, values, span=e.span)
        if name == "abs" and len(values) == 1:
            return ir.Extreme("max", (values[0], ex.Unary("-", values[0])), span=e.span)
        if name == "dot" and len(values) == 2:
            return self._reduce("+", ex.Binary("*", *values, span=e.span), e)
        if name in ("sum", "reduce_max", "reduce_min") and len(values) == 1:
            return self._reduce({"sum": "+", "reduce_max": "max", "reduce_min": "min"}[name], values[0], e)
        if name in rules and rules[name].rounding and len(values) == 2:
            return ir.RoundShift(values[0], values[1], rules[name].rounding, span=e.span)
        if name in rules and (kind := rules[name].type) and len(values) == 1:
            low, high = rules[name].low, rules[name].high
            return ir.Narrow(
                values[0], kind, rules[name].overflow, kind.low if low is None else low, kind.high if high is None else high, span=e.span
            )
        if name in FUNCTIONS:
            return ex.Call(function, values, span=e.span)
        if name in self.functions:
            return self._inline_expression(name, values, e)
        raise fail("E0209", f"unknown function '{name}'", e.span, nearest(name, [*self.functions, *rules, *FUNCTIONS, "dot", "sum"]))

    def _inline_expression(self, name: str, values: tuple[Expr, ...], e: Expr) -> Expr:
        """A function used inside an expression has a single return and no local names."""
        function = self.functions[name]
        params = [a.arg for a in function.args.args]
        if len(params) != len(values):
            raise fail("E0210", f"{name} takes {len(params)} arguments, not {len(values)}", e.span)
        saved, self.text = self.text, self.machine.functions
        try:
            lets, results = self._body(function, dict(zip(params, values, strict=True)))
        finally:
            self.text = saved
        if lets or len(results) != 1:
            raise fail("E0208", f"{name} has local names or several results: assign it first", e.span)
        return results[0]

    def _reduce(self, op: str, value: Expr, e: Expr) -> Expr:
        """Lanes summed are resolved later, when the statement's own lanes are known; see `close_reductions`."""
        return ir.Reduce(op, value, (), span=e.span)

    # accesses

    def _view_of(self, node: ast.expr) -> View | None:
        base = node.value if isinstance(node, ast.Subscript) else node
        if isinstance(base, ast.Subscript):
            base = base.value
        return self.machine.view.get(ast.unparse(base).replace(" ", ""))

    def _access(self, node: ast.expr) -> ir.Access:
        converted = ex.convert(node, self._locate)
        assert isinstance(converted, ex.Index)
        return self._make_access(converted, {})

    def _make_access(self, e: ex.Index, bound: dict[str, Expr]) -> ir.Access:
        base, index, lanes = e.base, e.index, None
        if isinstance(base, ex.Index):
            base, index, lanes = base.base, base.index, e.index
        at: list[tuple[str, Expr]] = []
        while isinstance(base, ex.Call) and isinstance(base.function, ex.Member) and len(base.args) == 1:
            at.append((base.function.name, self._names(base.args[0], bound)))
            base = base.function.base
        name = dotted(base)
        if name not in self.machine.view:
            raise fail("E0202", f"unknown memory or view '{name}'", e.span, nearest(name, self.machine.view))
        view = self.machine.view[name]
        access = ir.Access(
            len(self.accesses), view, tuple(self._names(i, bound) for i in index),
            None if lanes is None else self._lanes(view, lanes, bound, e), tuple(reversed(at)), e.span,
        )  # fmt: skip
        self.accesses.append(access)
        return access

    def _lanes(self, view: View, lanes: tuple[Expr, ...], bound: dict[str, Expr], e: Expr) -> tuple[str | Expr, ...]:
        if len(lanes) != len(view.element.dims):
            raise fail("E0206", f"'{view.name}' has {len(view.element.dims)} lane dimensions, not {len(lanes)}", e.span)
        result: list[str | Expr] = []
        for lane, extent in zip(lanes, view.element.dims, strict=True):
            if isinstance(lane, ex.Name) and lane.id not in bound and not self._known(lane.id):
                if self.lanes.setdefault(lane.id, extent) != extent:
                    raise fail("E0206", f"lane '{lane.id}' is {self.lanes[lane.id]} long elsewhere and {extent} here", e.span)
                result.append(lane.id)
            else:
                result.append(self._names(lane, bound))
        return tuple(result)

    def _known(self, name: str) -> bool:
        return name in self.scalars or name in self.machine.params or any(f.name == name for f in self.instruction.fields)


def dotted(e: Expr) -> str:
    """`a.b.c` of a chain of members, or an empty string."""
    if isinstance(e, ex.Name):
        return e.id
    return f"{dotted(e.base)}.{e.name}" if isinstance(e, ex.Member) else ""


def free_lanes(e: Expr) -> list[str]:
    """Lane names an expression depends on, in order of appearance, those summed inside left out."""
    found: dict[str, None] = {}
    match e:
        case ir.Load(access=access) if access.lanes is not None:
            found.update((lane, None) for lane in access.lanes if isinstance(lane, str))
        case ir.Temp(lanes=lanes):
            found.update((lane, None) for lane in lanes)
        case ir.Reduce(value=value, over=over):
            found.update((lane, None) for lane in free_lanes(value) if lane not in over)
        case _:
            for child in ex.children(e):
                found.update((lane, None) for lane in free_lanes(child))
    return list(found)


def close_reductions(e: Expr, kept: tuple[str, ...]) -> Expr:
    """Fixes what each reduction sums over: the lanes inside it that the statement does not keep."""

    def change(inner: Expr) -> Expr | None:
        if isinstance(inner, ir.Reduce) and not inner.over:
            value = close_reductions(inner.value, kept)
            return replace(inner, value=value, over=tuple(lane for lane in free_lanes(value) if lane not in kept))
        return None

    return ex.rewrite(e, change)


def fold(e: Expr) -> Expr:
    """A constant when the expression holds nothing but constants, else the expression."""
    from toolchain.spec.errors import UserError
    from toolchain.spec.evaluate import evaluate

    def leaf(inner: Expr) -> int:
        raise KeyError(inner)

    try:
        return ex.Const(evaluate(e, leaf))
    except (KeyError, UserError):
        return e


__all__ = ["ROUNDING", "ScalarType", "close_reductions", "fold", "free_lanes", "machine_semantics", "read_semantics"]
