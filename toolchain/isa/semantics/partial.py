"""Expressions of which only a part is known: conditions with their constant parts folded, and values that follow from some fields alone."""

from collections.abc import Callable, Iterable, Mapping

from toolchain.isa.semantics import ir
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import evaluate
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Name, Unary


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
