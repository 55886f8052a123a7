"""Expressions and conditions that constants decide."""

from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import evaluate
from toolchain.spec.expr import Const, Expr, Logic


def fold_condition(e: Expr) -> Expr:
    """A condition without the parts that constants decide: a constant, or what is left of `and` and `or`."""
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
    """A constant when the expression holds nothing but constants, else the expression."""

    def leaf(inner: Expr) -> int:
        raise KeyError(inner)

    try:
        return Const(evaluate(e, leaf), span=e.span)
    except (KeyError, UserError):
        return e
