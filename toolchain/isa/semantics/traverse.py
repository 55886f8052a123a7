"""Walks over resolved semantics, looking also into the addresses of accesses: statements inside statements, the nodes of expressions,
and the variables in them, with other expressions in their place; conditions with their constant parts folded, and values that follow from some
fields alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import evaluate
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Name, Unary


def statements(body: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """All statements at any depth, in the order of the text, each before those inside it."""
    for stmt in body:
        yield stmt
        match stmt:
            case ir.For(body=inner):
                yield from statements(inner)
            case ir.If(then=then, other=other):
                yield from statements((*then, *other))
            case _:
                pass


def expressions(stmt: ir.Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, not of the statements inside it."""
    match stmt:
        case ir.For(start=start, stop=stop):
            return start, stop
        case ir.If(condition=value) | ir.Let(value=value) | ir.SetTemp(value=value):
            return (value,)
        case ir.Store(access=access, value=value):
            return (*addresses(access), value)
        case ir.Latch(index=index):
            return (index,)
        case _:
            return ()


def addresses(access: ir.Access) -> tuple[Expr, ...]:
    """Every expression that decides which element an access touches: its index, its instance, its fixed lanes."""
    return (*access.index, *(at for _, at in access.at), *(lane for lane in access.lanes or () if isinstance(lane, Expr)))


def nodes(e: Expr) -> Iterator[Expr]:
    """The node and all below it, those in the addresses of accesses too."""
    waiting = [e]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += (addresses(found.access) if isinstance(found, ir.Load | ir.ControlRead) else ex.children(found))[::-1]


def mentions(e: Expr, names: Iterable[str]) -> bool:
    """Whether one of the variables occurs."""
    wanted = set(names)
    return any(isinstance(inner, ir.Var) and inner.name in wanted for inner in nodes(e))


def access_mentions(access: ir.Access, names: Iterable[str]) -> bool:
    """Whether the place of an access depends on one of the variables."""
    wanted = set(names)
    return any(mentions(part, wanted) for part in addresses(access))


def inline(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with variables replaced by their expressions (already free of those variables)."""

    def change(inner: Expr) -> Expr | None:
        match inner:
            case ir.Var(name=name):
                return values.get(name)
            case ir.Load(access=access):
                return ir.Load(inline_access(access, values), span=inner.span)
            case ir.ControlRead(access=access, member=member):
                return ir.ControlRead(inline_access(access, values), member, span=inner.span)
            case _:
                return None

    return ex.rewrite(e, change)


def inline_access(access: ir.Access, values: Mapping[str, Expr]) -> ir.Access:
    """The access with variables replaced in its index, its instance and its fixed lanes."""
    lanes = access.lanes and tuple(lane if isinstance(lane, str) else inline(lane, values) for lane in access.lanes)
    index, at = tuple(inline(i, values) for i in access.index), tuple((level, inline(e, values)) for level, e in access.at)
    return replace(access, index=index, at=at, lanes=lanes)


def linear(e: Expr, names: Iterable[str]) -> tuple[Expr, dict[str, Expr]] | None:
    """`rest + sum of coefficient * variable`, rest and coefficients free of the variables; None where it is not so."""
    wanted = set(names)
    if not mentions(e, wanted):
        return e, {}
    match e:
        case ir.Var(name=name):
            return ex.Const(0), {name: ex.Const(1)}
        case ex.Binary(op="+" | "-" as op, left=left, right=right):
            a, b = linear(left, wanted), linear(right, wanted)
            if a is None or b is None:
                return None
            merged = dict(a[1])
            for name, coefficient in b[1].items():
                merged[name] = ex.Binary(op, merged.get(name, ex.Const(0)), coefficient)
            return ex.Binary(op, a[0], b[0]), merged
        case ex.Binary(op="*", left=left, right=right):
            factor, other = (left, right) if not mentions(left, wanted) else (right, left)
            parts = linear(other, wanted)
            if mentions(factor, wanted) or parts is None:
                return None
            return ex.Binary("*", factor, parts[0]), {name: ex.Binary("*", factor, c) for name, c in parts[1].items()}
        case _:
            return None


def fold_condition(e: Expr) -> Expr:
    """A condition without the parts that constants decide: a constant, or the rest of `and` and `or`."""
    if not isinstance(e, Logic):
        return fold(e)
    deciding = e.op == "or"
    parts = [fold_condition(part) for part in e.values]
    if any(isinstance(part, Const) and bool(part.value) == deciding for part in parts):
        return Const(int(deciding), span=e.span)
    open_parts = tuple(part for part in parts if not isinstance(part, Const))
    if len(open_parts) > 1:
        return Logic(e.op, open_parts, span=e.span)
    return open_parts[0] if open_parts else Const(int(not deciding), span=e.span)


def fold(e: Expr) -> Expr:
    """A constant when the expression holds only constants, else the expression."""

    def leaf(inner: Expr) -> int:
        raise KeyError(inner)

    try:
        return Const(evaluate(e, leaf), span=e.span)
    except (KeyError, UserError):
        return e


def partial(expr: Expr, given: Mapping[str, int]) -> int | None:
    """The value where it follows from the given fields alone, lazily: `0 and x` is 0 whatever x is."""
    match expr:
        case Const(value=value):
            return value
        case Name(id=name) | ir.FieldRef(name=name):
            return given.get(name)
        case Logic(op=op, values=values):
            return _logic(op, (partial(v, given) for v in values))
        case Choose(condition=condition, then=then, other=other):
            return _choice(partial(condition, given), then, other, given)
        case Unary(op=op, value=value):
            return _apply(lambda v: Unary(op, v[0]), [partial(value, given)])
        case Binary(op=op, left=left, right=right):
            return _apply(lambda v: Binary(op, v[0], v[1]), [partial(left, given), partial(right, given)])
        case Compare(op=op, left=left, right=right):
            return _apply(lambda v: Compare(op, v[0], v[1]), [partial(left, given), partial(right, given)])
        case ir.Extreme(op=op, values=values):
            return _apply(lambda v: Call(Name(op), v), [partial(v, given) for v in values])
        case Call(function=function, args=args):
            return _apply(lambda v: Call(function, v), [partial(a, given) for a in args])
        case _:
            return None


def _logic(op: str, values: Iterable[int | None]) -> int | None:
    settling = op == "or"
    unknown = False
    for value in values:
        if value is None:
            unknown = True
        elif bool(value) == settling:
            return int(settling)
    return None if unknown else int(not settling)


def _choice(condition: int | None, then: Expr, other: Expr, given: Mapping[str, int]) -> int | None:
    if condition is not None:
        return partial(then if condition else other, given)
    one, two = partial(then, given), partial(other, given)
    return one if one == two else None


def _apply(make: Callable[[tuple[Const, ...]], Expr], values: list[int | None]) -> int | None:
    known = tuple(Const(v) for v in values if v is not None)
    if len(known) < len(values):
        return None
    try:
        return evaluate(make(known), _no_leaf)
    except UserError:
        return None


def _no_leaf(expr: Expr) -> int:
    raise TypeError(expr)
