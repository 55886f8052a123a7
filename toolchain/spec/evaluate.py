"""Evaluates integer expressions over scalars; toolchain/spec/arrays.py does the same over numpy arrays."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from toolchain.spec.errors import UserError, fail
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Member, Name, Unary, rewrite

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def least(*values: int) -> int:
    """min, also of one value."""
    return min(values)


def greatest(*values: int) -> int:
    """max, also of one value."""
    return max(values)


def magnitude(a: int) -> int:
    """abs"""
    return abs(a)


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up; b is not zero."""
    return -(-a // b)


def clog2(a: int) -> int:
    """Bits needed to count `a` things: the least n with 2**n >= a."""
    return max(a - 1, 0).bit_length()


def align(a: int, b: int) -> int:
    """The least multiple of b that is not below a, for b above zero."""
    return ceil_div(a, b) * b


FUNCTIONS: dict[str, tuple[int | None, Callable[..., int]]] = {
    "min": (None, least), "max": (None, greatest), "abs": (1, magnitude),
    "ceil_div": (2, ceil_div), "clog2": (1, clog2), "align": (2, align),
}  # fmt: skip
MAX_BITS = 256
LARGEST_BITS = 512
LARGEST = 1 << LARGEST_BITS


def evaluate(expr: Expr, leaf: Callable[[Expr], int]) -> int:
    """The value of a scalar expression; `leaf` answers for whatever this module does not know.

    Raises UserError E0122 for a division by zero, a negative or huge shift.
    """
    kind = type(expr)  # most are these; FUNCTIONS are named in calls alone
    if kind is Name:
        return leaf(expr)
    if kind is Const:
        return expr.value  # pyright: ignore
    match expr:
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            a, b = evaluate(left, leaf), evaluate(right, leaf)
            if (op in ("//", "%") and b == 0) or (op in ("<<", ">>") and not 0 <= b <= MAX_BITS):
                raise fail("E0122", f"cannot evaluate {a} {op} {b}", expr.span)
            result = int(OPERATORS[op](a, b))
            if not -LARGEST < result < LARGEST:
                raise fail("E0122", f"{op} gives a number of more than {LARGEST_BITS} bits", expr.span)
            return result
        case Unary(op=op, value=inner):
            number = evaluate(inner, leaf)
            return -number if op == "-" else ~number if op == "~" else int(not number)
        case Logic(op=op, values=values):
            found = (evaluate(value, leaf) for value in values)
            return int(all(found) if op == "and" else any(found))
        case Choose(condition=condition, then=then, other=other):
            return evaluate(then if evaluate(condition, leaf) else other, leaf)
        case Call(function=Name(id=name), args=args) if name in FUNCTIONS:
            if wrong := wrong_count(name, len(args)):
                raise fail("E0123", wrong, expr.span)
            function = FUNCTIONS[name][1]
            numbers = [evaluate(a, leaf) for a in args]
            if function in (ceil_div, align) and numbers[1] == 0:
                raise fail("E0122", f"cannot evaluate {name}({numbers[0]}, 0)", expr.span)
            return function(*numbers)
        case _:
            return leaf(expr)


def wrong_count(name: str, count: int) -> str:
    """The fault in calling one of FUNCTIONS with so many arguments, or an empty string."""
    arity = FUNCTIONS[name][0]
    wanted = "at least one argument" if arity is None else f"{arity} argument{'s' * (arity > 1)}"
    return f"{name} takes {wanted}, not {count}" if (not count if arity is None else count != arity) else ""


def constant(expr: Expr, names: Mapping[str, int], choices: Mapping[str, tuple[str, ...]] | None = None) -> int:
    """The value of an expression over known names. Raises UserError E0107 for an unknown one."""
    if type(expr) is Const:  # most are one number or one name
        return expr.value
    if type(expr) is Name and expr.id in names:
        return names[expr.id]

    def leaf(e: Expr) -> int:
        if isinstance(e, Name) and e.id in names:
            return names[e.id]
        if isinstance(e, Member) and isinstance(e.base, Name) and choices and e.name in choices.get(e.base.id, ()):
            return choices[e.base.id].index(e.name)
        raise unknown(e, names)

    return evaluate(expr, leaf)


def substitute(expr: Expr, names: Mapping[str, int], choices: Mapping[str, tuple[str, ...]]) -> Expr:
    """The expression with parameters and choices in place; other names stay."""

    def change(e: Expr) -> Expr | None:
        kind = type(e)  # a comparison of types for each node is a third of the time of patterns
        if kind is Name:
            return Const(names[e.id], span=e.span) if e.id in names else None  # pyright: ignore
        if kind is Member:
            match e:
                case Member(base=Name(id=base), name=name) if name in choices.get(base, ()):
                    return Const(choices[base].index(name), span=e.span)
                case _:
                    return None
        return None

    return rewrite(expr, change)


def fold(expr: Expr) -> Expr:
    """Arithmetic on constants done; choices and logic stay, so that their names can still be checked. An unchanged node stays the same object."""
    match expr:
        case Const() | Name():
            return expr
        case Unary(op=op, value=value):
            inner = fold(value)
            found = expr if inner is value else Unary(op, inner, span=expr.span)
            return _folded(found) if type(inner) is Const else found
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            one, other = fold(left), fold(right)
            found = expr if one is left and other is right else type(expr)(op, one, other, span=expr.span)
            return _folded(found) if type(one) is Const and type(other) is Const else found
        case Logic(op=op, values=values):
            return Logic(op, tuple(map(fold, values)), span=expr.span)
        case Choose(condition=condition, then=then, other=other):
            return Choose(fold(condition), fold(then), fold(other), span=expr.span)
        case Call(function=function, args=args):
            return _called(Call(function, tuple(map(fold, args)), span=expr.span))
        case _:
            return expr


def _called(call: Call) -> Expr:
    ready = isinstance(call.function, Name) and call.function.id in FUNCTIONS and all(isinstance(a, Const) for a in call.args)
    return _folded(call) if ready else call


def _folded(expr: Expr) -> Expr:
    """Its value as a constant; an expression that has none, such as 1 // 0 in a branch never taken, stays."""
    try:
        return Const(constant(expr, {}), span=expr.span)
    except UserError:
        return expr


def unknown(expr: Expr, names: Mapping[str, object]) -> Exception:
    """The error for an undefined name, with the nearest one that exists."""
    from toolchain.spec.errors import nearest

    name = expr.id if isinstance(expr, Name) else "this expression"
    if isinstance(expr, Name):
        return fail("E0107", f"unknown name '{name}'", expr.span, nearest(name, names))
    return fail("E0121", "this is not allowed in a constant expression", expr.span)


BUILT_IN = (
    "dot", "sum", "reduce_min", "reduce_max", "lookup", "wrap", "saturate", "round_half_up", "round_half_even", "round_half_away", "round_floor",
    "round_truncate", "minimum", "maximum", "minimum_number", "maximum_number", "is_nan", "from_bits", "to_bits",
    "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "divide", "reciprocal", "sqrt", "fma", "exp", "log", "tanh", "erf",
    "sum_in_order", "sum_tree", "sum_exact", "dot_exact",
    "reduce_minimum", "reduce_maximum", "reduce_minimum_number", "reduce_maximum_number",
)  # fmt: skip
"""Functions of the semantics language beside FUNCTIONS."""

RESERVED = frozenset({*FUNCTIONS, *BUILT_IN, "range", "fields", "reads", "writes"})
