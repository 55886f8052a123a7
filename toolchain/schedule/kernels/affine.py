"""Sums of loops times numbers, taken apart: the growth of an expression from round to round, and its value in the first one."""

from collections.abc import Collection

from toolchain.isa.semantics.partial import fold
from toolchain.spec.expr import Binary, Call, Choose, Const, Expr, Name, Unary, rewrite, walk

ONE, ZERO = Const(1), Const(0)


def mentions(expr: Expr, names: Collection[str]) -> bool:
    """Whether one of the names occurs."""
    return any(isinstance(e, Name) and e.id in names for e in walk(expr))


def growth(expr: Expr, loop: str) -> Expr | None:
    """How much larger the value is in each round of a loop than in the one before; None where that differs from round to round.

    A choice may depend on anything but the loop.
    """
    if not mentions(expr, (loop,)):
        return ZERO
    match expr:
        case Name():
            return ONE
        case Unary(op="-", value=value):
            grown = growth(value, loop)
            return grown and minus(ZERO, grown)
        case Binary(op="+" | "-" as op, left=left, right=right):
            one, two = growth(left, loop), growth(right, loop)
            return None if one is None or two is None else plus(one, two) if op == "+" else minus(one, two)
        case Binary(op="*", left=left, right=right) if not (mentions(left, (loop,)) and mentions(right, (loop,))):
            scaled, factor = (left, right) if mentions(left, (loop,)) else (right, left)
            grown = growth(scaled, loop)
            return grown and times(grown, factor)
        case Choose(condition=condition, then=then, other=other) if not mentions(condition, (loop,)):
            one, two = growth(then, loop), growth(other, loop)
            return None if one is None or two is None else chosen(condition, one, two)
        case _:
            return None


def beginning(expr: Expr, loops: Collection[str]) -> Expr:
    """The value in the first round of these loops, each of which counts from 0."""

    def change(e: Expr) -> Expr | None:
        match e:
            case Name(id=name) if name in loops:
                return ZERO
            case Binary(op="+" | "-" | "*" as op, left=left, right=right):
                return {"+": plus, "-": minus, "*": times}[op](rewrite(left, change), rewrite(right, change))
            case Choose(condition=condition, then=then, other=other):
                return chosen(rewrite(condition, change), rewrite(then, change), rewrite(other, change))
            case Call(function=function, args=args):
                return Call(function, tuple(rewrite(arg, change) for arg in args), span=e.span)
            case _:
                return None

    return rewrite(expr, change)


def plus(a: Expr, b: Expr) -> Expr:
    """a + b"""
    return b if a == ZERO else a if b == ZERO else fold(Binary("+", a, b))


def minus(a: Expr, b: Expr) -> Expr:
    """a - b; `0 - (0 - c)` is c."""
    match a, b:
        case _, Const(value=0):
            return a
        case Const(value=0), Binary(op="-", left=Const(value=0), right=inner):
            return inner
        case _:
            return fold(Binary("-", a, b))


def times(a: Expr, b: Expr) -> Expr:
    """a * b"""
    if ZERO in (a, b):
        return ZERO
    return b if a == ONE else a if b == ONE else fold(Binary("*", a, b))


def chosen(condition: Expr, then: Expr, other: Expr) -> Expr:
    """`then if condition else other`"""
    if isinstance(condition := fold(condition), Const):
        return then if condition.value else other
    return then if then == other else Choose(condition, then, other)
