"""Statements of the semantics language: loops, branches, assignments to names, temporaries, memories and registers."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.access import Scope, copied_value, lane_value, make_access, view_of
from toolchain.isa.semantics.expressions import MAX_CALLS, Expressions
from toolchain.isa.semantics.text import Library, Locator, Procedure
from toolchain.isa.semantics.traverse import fold_condition, nodes
from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Expr
from toolchain.spec.model import FloatType, ScalarType
from toolchain.spec.model.types import scalar_of

LOOP = "a loop reads 'for i in range(n), j in range(m):'"
MAX_LOOPS = 12


@dataclass
class Statements:
    """Reads the statements of one instruction into the IR."""

    scope: Scope
    expressions: Expressions
    locator: Locator
    library: Library

    def block(self, body: Sequence[ast.stmt]) -> tuple[ir.Stmt, ...]:
        return tuple(stmt for node in body for stmt in self._statement(node))

    def _statement(self, node: ast.stmt) -> Sequence[ir.Stmt]:
        span = self.locator.span(node)
        match node:
            case ast.Pass():
                return ()
            case ast.For(orelse=[]):
                return (self._loop(self._heads(node), node.body),)
            case ast.If():
                return self._branch(node, span)
            case ast.AnnAssign(target=ast.Subscript(value=ast.Name(id=name), slice=lanes), annotation=kind, value=ast.expr() as value):
                return (self._declare(name, lanes, kind, value, span),)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                return self._unpack(names, value, span)
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, self.locator.convert(value), False, span)
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                return self._assign(target, self.locator.convert(value), True, span)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args, keywords=[])) if name in self.library.procedures:
                return self._procedure(self.library.procedures[name], args, span)
            case _:
                raise fail("E0203", f"'{ast.unparse(node).splitlines()[0]}' is not part of the semantics language", span)

    # loops and branches

    def _heads(self, node: ast.For) -> list[tuple[str, list[Expr], Span]]:
        """`for i in range(a), j in range(b):` reads in Python as one loop over a tuple with comparisons in it."""
        parts = node.iter.elts if isinstance(node.iter, ast.Tuple) else [node.iter]
        heads: list[tuple[ast.expr, ast.expr]] = [(node.target, parts[0])] if parts else []
        for part in parts[1:]:
            match part:
                case ast.Compare(left=left, ops=[ast.In()], comparators=[over]):
                    heads.append((left, over))
                case _:
                    raise fail("E0204", LOOP, self.locator.span(part))
        return [self._head(target, over) for target, over in heads]

    def _head(self, target: ast.expr, over: ast.expr) -> tuple[str, list[Expr], Span]:
        match target, over:
            case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=[_] | [_, _], keywords=[]):
                return name, [self.locator.convert(a) for a in over.args], self.locator.span(target)
            case _:
                raise fail("E0204", LOOP, self.locator.span(target))

    def _loop(self, heads: list[tuple[str, list[Expr], Span]], body: Sequence[ast.stmt]) -> ir.Stmt:
        scope, (name, bounds, span) = self.scope, heads[0]
        limits = [self.expressions.scalar(b) for b in bounds]
        scope.require_new(name, span)
        if scope.depth >= MAX_LOOPS:
            raise fail("E0212", f"more than {MAX_LOOPS} loops stand inside each other", span)
        unique, before = scope.unique(name), scope.assigned
        scope.loops[name] = unique
        scope.depth += 1
        inner = (self._loop(heads[1:], body),) if len(heads) > 1 else self.block(body)
        scope.depth -= 1
        del scope.loops[name]
        scope.assigned = before
        return ir.For(unique, limits[0] if len(limits) > 1 else ex.Const(0), limits[-1], inner, span=span)

    def _branch(self, node: ast.If, span: Span) -> Sequence[ir.Stmt]:
        condition = fold_condition(self.expressions.scalar(self.locator.convert(node.test)))
        if isinstance(condition, ex.Const):
            return self.block(node.body if condition.value else node.orelse)
        before = self.scope.assigned
        then, after = self.block(node.body), self.scope.assigned
        self.scope.assigned = before
        other = self.block(node.orelse)
        self.scope.assigned &= after
        return (ir.If(condition, then, other, span=span),)

    # procedures

    def _procedure(self, called: Procedure, args: Sequence[ast.expr], span: Span) -> Sequence[ir.Stmt]:
        """The statements of a procedure, its arguments in place. Its names are its own, apart from those of loops. Raises UserError E0210, E0212."""
        scope, calls = self.scope, self.expressions.calls
        if len(args) != len(called.params):
            raise fail("E0210", f"{called.name} takes {len(called.params)} arguments, not {len(args)}", span)
        if called.name in calls or len(calls) >= MAX_CALLS:
            why = f"{called.name} calls itself" if called.name in calls else f"functions call functions more than {MAX_CALLS} deep"
            raise fail("E0212", why, span)
        before: list[ir.Stmt] = []
        values = [self._argument(before, f"{called.name}_{name}", arg) for name, arg in zip(called.params, args, strict=True)]
        kept = scope.arguments, scope.lets, scope.records, scope.assigned, self.locator
        scope.arguments, scope.lets, scope.records = dict(zip(called.params, values, strict=True)), {}, {}
        assert self.library.locator
        self.locator = self.library.locator
        calls.append(called.name)
        body = self.block(called.body)
        calls.pop()
        scope.arguments, scope.lets, scope.records, scope.assigned, self.locator = kept
        return (*before, *body)

    def _argument(self, before: list[ir.Stmt], name: str, arg: ast.expr) -> Expr:
        """A field, a variable or a number as it is; anything else is computed once."""
        value = fold_condition(self.expressions.scalar(self.locator.convert(arg)))
        return value if isinstance(value, ex.Const | ir.FieldRef | ir.Var) else self._keep(before, name, value, self.locator.span(arg))

    # assignments

    def _assign(self, target: ast.expr, value: Expr, accumulate: bool, span: Span) -> Sequence[ir.Stmt]:
        match self.locator.convert(target):
            case ex.Name(id=name) if name in self.scope.machine.memory and not accumulate:
                return (self._latch(name, ex.Const(0), value, span),)
            case ex.Index(base=ex.Name(id=name), index=(index,)) if self._register(name) and not accumulate:
                return (self._latch(name, self.expressions.scalar(index), value, span),)
            case ex.Name(id=name) as variable:
                return self._let(variable, ex.Binary("+", variable, value, span=span) if accumulate else value, span)
            case ex.Index(base=ex.Name(id=name), index=lanes) if name in self.scope.temps:
                return (self._set_temp(name, lanes, value, accumulate, span),)
            case ex.Index() as element:
                return (self._store(element, value, accumulate, span),)
            case _:
                raise fail("E0203", "cannot assign to this", span)

    def _register(self, name: str) -> bool:
        memory = self.scope.machine.memory.get(name)
        return bool(memory and memory.kind == "register")

    def _latch(self, name: str, index: Expr, value: Expr, span: Span) -> ir.Stmt:
        if not self._register(name):
            raise fail("E0203", f"'{name}' is a memory: write one of its elements", span, f"{name}[address] = ...")
        latches = self.scope.machine.memory[name].latches
        if not latches:
            raise fail("E0216", f"'{name}' is set by the host, no instruction writes it", span)
        if not (isinstance(value, ex.Name) and value.id == "fields"):
            raise fail("E0207", f"'{name}' takes all fields at once", span, f"write {name} = fields")
        if self.scope.instruction.name not in latches:
            raise fail("E0216", f"'{name}' latches the fields of {' and '.join(latches)}, not of {self.scope.instruction.name}", span)
        return ir.Latch(name, index, span=span)

    def _let(self, target: ex.Name, value: Expr, span: Span) -> Sequence[ir.Stmt]:
        scope = self.scope
        view = view_of(scope, value) if isinstance(value, ex.Index) else None
        if isinstance(value, ex.Index) and view and view.element.record:
            return self._name_record(target.id, value, span)
        before: list[ir.Stmt] = []
        if isinstance(value, ex.Call) and isinstance(value.function, ex.Name) and value.function.id in self.expressions.functions:
            results = self._call(value, before, span)
            if len(results) != 1:
                raise fail("E0208", f"{len(results)} values for one name", span)
            right = results[0]
        else:
            right = self.expressions.scalar(value)
        name, carried = scope.let(target.id, span)
        return (*before, ir.Let(name, right, carried, span=span))

    def _name_record(self, name: str, value: ex.Index, span: Span) -> Sequence[ir.Stmt]:
        """`k = uop[u]`: k.member reads the element anew; a computed index is kept, so that it stays the same element."""
        scope = self.scope
        if name not in scope.records:
            scope.require_new(name, span)
        before: list[ir.Stmt] = []
        access = make_access(scope, value, self.expressions.scalar, None)
        kept = tuple(self._keep(before, f"{name}_index", index, span) if self._moves(index) else index for index in access.index)
        scope.records[name] = scope.accesses[access.number] = replace(access, index=kept)
        scope.assign(name)
        return before

    def _moves(self, index: Expr) -> bool:
        """Whether a later assignment may change the index."""
        return any(isinstance(e, ir.Var) and e.name not in self.scope.loops.values() for e in nodes(index))

    def _keep(self, before: list[ir.Stmt], name: str, value: Expr, span: Span) -> Expr:
        """Gives a scalar a variable of its own, assigned just before this statement."""
        if any(ir.is_lane_leaf(e) or isinstance(e, ir.Reduce) for e in nodes(value)) or self.expressions.floating.type_of(value):
            return value
        unique = self.scope.unique(name)
        before.append(ir.Let(unique, value, span=span))
        return ir.Var(unique, span=span)

    def _call(self, call: ex.Call, before: list[ir.Stmt], span: Span) -> tuple[Expr, ...]:
        """The results of a function, its local names assigned before. Raises UserError E0211 for tensor data."""
        results = self.expressions.inline(call, None, lambda local, value: self._keep(before, local, value, span))
        return tuple(self.expressions.floating.integer(self.expressions.require_scalar(result, call.span), call.span) for result in results)

    def _unpack(self, names: list[ast.expr], value: ast.expr, span: Span) -> Sequence[ir.Stmt]:
        call = self.locator.convert(value)
        if not (isinstance(call, ex.Call) and isinstance(call.function, ex.Name) and call.function.id in self.expressions.functions):
            raise fail("E0208", "only a function of the machine gives several values", span)
        before: list[ir.Stmt] = []
        results = self._call(call, before, span)
        if len(results) != len(names):
            raise fail("E0208", f"{len(results)} values for {len(names)} names", span)
        targets = [node.id if isinstance(node, ast.Name) else "" for node in names]
        if "" in targets or len(set(targets)) < len(targets):
            raise fail("E0203", "several values go to as many different names", span)
        old = {self.scope.lets[name].unique for name in targets if name in self.scope.lets}
        if any(isinstance(e, ir.Var) and e.name in old for result in results for e in nodes(result)):
            results = tuple(self._keep(before, f"{name}_new", result, span) for name, result in zip(targets, results, strict=True))
        for name, result in zip(targets, results, strict=True):
            unique, carried = self.scope.let(name, span)
            before.append(ir.Let(unique, result, carried, span=span))
        return before

    # temporaries and memories

    def _declare(self, name: str, lanes: ast.expr, annotation: ast.expr, value: ast.expr, span: Span) -> ir.Stmt:
        scope, kind, overflow = self.scope, self.locator.convert(annotation), "error"
        match kind:
            case ex.Call(function=ex.Name(id=("wrap" | "saturate") as overflow), args=(kind,)):
                pass
            case _:
                pass
        items = lanes.elts if isinstance(lanes, ast.Tuple) else [lanes]
        if not items or not all(isinstance(item, ast.Name) for item in items):
            raise fail("E0206", "a temporary's lanes are names", self.locator.span(lanes))
        names = tuple(item.id for item in items if isinstance(item, ast.Name))
        for lane in names:
            if scope.taken(lane) or names.count(lane) > 1:
                raise fail("E0205", f"the name '{lane}' is taken", self.locator.span(lanes), "loop, lane and local names must be new")
        declared = ir.TempType(scalar_of(kind, scope.machine.params), overflow, names)
        if overflow != "error" and isinstance(declared.type, FloatType):
            raise fail("E0226", f"{declared.type} has no range to pass", span, f"declare it {declared.type}")
        if scope.temps.get(name) != declared:
            scope.require_new(name, span)
        right = self._fitted(self.expressions.value(self.locator.convert(value), names), declared.type, f"'{name}'", span)
        right = lane_value(right, names, span)
        scope.temps[name] = declared
        scope.assign(name)
        return ir.SetTemp(name, names, right, False, span=span)

    def _set_temp(self, name: str, lanes: tuple[Expr, ...], value: Expr, accumulate: bool, span: Span) -> ir.Stmt:
        scope = self.scope
        names = scope.temps[name].lanes
        if tuple(lane.id if isinstance(lane, ex.Name) else "" for lane in lanes) != names:
            raise fail("E0206", f"'{name}' has the lanes [{', '.join(names)}]", span, "a temporary is written with the names it was declared with")
        if accumulate:
            scope.require_assigned(name, span)
        kind = scope.temps[name].type
        right = self._fitted(self.expressions.value(value, names), kind, f"'{name}'", span)
        if accumulate and isinstance(kind, FloatType):
            right, accumulate = ir.Float("add", kind, (ir.Temp(name, names, span=span), right), span=span), False
        right = lane_value(right, names, span)
        scope.assign(name)
        return ir.SetTemp(name, names, right, accumulate, span=span)

    def _fitted(self, value: Expr, kind: ScalarType, place: str, span: Span) -> Expr:
        """A value for a place of a type. Raises UserError E0226 where one is floating and the other is not."""
        return self.expressions.floating.converted(value, kind, span, place)

    def _store(self, target: ex.Index, value: Expr, accumulate: bool, span: Span) -> ir.Stmt:
        access = make_access(self.scope, target, self.expressions.scalar, None)
        right = self.expressions.value(value, (lane for lane in access.lanes or () if isinstance(lane, str)))
        if access.lanes is None:
            if accumulate:
                raise fail("E0215", f"'{access.view.name}' is a whole element here, which can only be copied", span, "name its lanes")
            return ir.Store(access, copied_value(right, access), False, span=span)
        kept = [lane for lane in access.lanes if isinstance(lane, str)]
        if len(set(kept)) < len(kept):
            raise fail("E0206", "a lane is written once", span, "the lanes of an element that is written have different names")
        kind = access.view.element.scalar
        right = self._fitted(right, kind, f"'{access.view.name}'", span)
        if accumulate and isinstance(kind, FloatType):
            old = replace(access, number=len(self.scope.accesses))
            self.scope.accesses.append(old)
            right, accumulate = ir.Float("add", kind, (ir.Load(old, span=span), right), span=span), False
        return ir.Store(access, lane_value(right, kept, span), accumulate, span=span)
