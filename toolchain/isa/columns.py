"""Evaluates integer expressions over numpy columns: the meaning of toolchain/spec/evaluate.py, a whole column at once.

Exact: an operation whose result might pass 64 bits is done with Python integers. Lazy: a side of `and`, `or` or
`if else` is evaluated only for the rows that take it, so an illegal operation there goes unnoticed in other rows.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from toolchain.isa.program import Ints
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import FUNCTIONS, MAX_BITS, OPERATORS, clog2, wrong_count
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Name, Unary

Leaf = Callable[[Expr, Ints | None], Ints | int]
"""Values of leaves: (expression, row numbers or None for all) -> one value a row, or one for all."""

Value = Any
"""An int (the same for every row), an int64 array, or an object array of ints that need more than 64 bits."""

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
FEW = 16
"""So many values Python compares sooner than numpy begins to."""
ALWAYS = frozenset("+-*&|^")
"""Operators that have a value whatever their numbers are."""
POWERS = np.array([1 << n for n in range(63)], np.int64)


def evaluate_columns(expr: Expr, leaf: Leaf, count: int, label: Callable[[int], str] = str) -> Ints:
    """int64 [count]: the value of `expr` for each row.

    label: names a row in an error. Raises UserError E0122 for a division by zero, a negative or huge shift, a result
    past 64 bits; E0123 for a wrong number of arguments; and whatever `leaf` raises.
    """
    return _broadcast(Evaluation(leaf, count, label).value(expr, None), count, expr)


def evaluate_rows(expr: Expr, leaf: Leaf, count: int, label: Callable[[int], str] = str) -> Value:
    """As `evaluate_columns`, but one number where the value is the same for every row."""
    return Evaluation(leaf, count, label).value(expr, None)


def field_leaf(columns: Mapping[str, Ints]) -> Leaf:
    """Names are columns. Raises UserError E0107 for another name, E0121 for anything but a name."""

    def leaf(expr: Expr, rows: Ints | None) -> Ints | int:
        if not isinstance(expr, Name):
            raise fail("E0121", "this is not allowed here", expr.span)
        if expr.id not in columns:
            raise fail("E0107", f"unknown name '{expr.id}'", expr.span)
        return columns[expr.id] if rows is None else columns[expr.id][rows]

    return leaf


class Evaluation:
    """One evaluation; rows is None for all rows, so that the usual case makes no copy. A class below it may look at operands as they come."""

    def __init__(self, leaf: Leaf, count: int, label: Callable[[int], str]) -> None:
        self.leaf, self.count, self.label = leaf, count, label

    def value(self, expr: Expr, rows: Ints | None) -> Value:
        return plain(self.raw(expr, rows))

    def raw(self, expr: Expr, rows: Ints | None) -> Value:
        """The value, perhaps as a numpy scalar."""
        if isinstance(expr, Name):  # most of them by far, and numbers
            return self.leaf(expr, rows)
        if isinstance(expr, Const):
            return expr.value
        if isinstance(expr, Binary):
            return self.binary(expr, expr.op, self.value(expr.left, rows), self.value(expr.right, rows), rows)
        match expr:
            case Unary(op="not", value=inner):
                return _integer(self.value(inner, rows) == 0)
            case Unary(op=op, value=inner):
                return _negate(self.value(inner, rows)) if op == "-" else ~self.value(inner, rows)
            case Compare(left=left, right=right):
                return self.compare(expr, self.value(left, rows), self.value(right, rows))
            case Logic(op=op, values=values):
                return self.logic(op == "and", values, rows)
            case Choose(condition=condition, then=then, other=other):
                return self.choose(self.condition(condition, rows), then, other, rows)
            case Call(function=Name(id=name), args=args) if name in FUNCTIONS:
                return self.call(expr, name, [self.value(a, rows) for a in args], rows)
            case _:
                return self.leaf(expr, rows)

    def compare(self, expr: Compare, a: Value, b: Value) -> Value:
        """The comparison of two values: 0 or 1."""
        return _integer(OPERATORS[expr.op](a, b))

    def condition(self, expr: Expr, rows: Ints | None) -> Value:
        """The value that a choice, `and` or `or` depends on."""
        return self.value(expr, rows)

    def truth(self, value: Value, rows: Ints | None) -> Value:
        """bool [rows]"""
        return _spread(np.asarray(value != 0, np.bool_), self.length(rows))

    def length(self, rows: Ints | None) -> int:
        return self.count if rows is None else len(rows)

    def logic(self, conjunction: bool, values: tuple[Expr, ...], rows: Ints | None) -> Value:
        first = self.condition(values[0], rows)
        if isinstance(first, int):
            decided = bool(first) != conjunction or len(values) == 1
            return int(first != 0) if decided else self.logic(conjunction, values[1:], rows)
        result = self.truth(first, rows).copy()
        for value in values[1:]:
            undecided = np.flatnonzero(result == conjunction)
            if len(undecided) == len(result):
                result = self.truth(self.condition(value, rows), rows).copy()
            elif len(undecided):
                chosen = _select(rows, undecided)
                result[undecided] = self.truth(self.condition(value, chosen), chosen)
        return _integer(result)

    def choose(self, condition: Value, then: Expr, other: Expr, rows: Ints | None) -> Value:
        if isinstance(condition, int):
            return self.value(then if condition else other, rows)
        condition = self.truth(condition, rows)
        if condition.all() or not condition.any():
            return self.value(then if condition.all() else other, rows)
        sides = [
            (chosen, self.value(side, _select(rows, chosen)))
            for chosen, side in ((np.flatnonzero(condition), then), (np.flatnonzero(~condition), other))
        ]
        wide = any(_wide(value) for _, value in sides)
        result = np.empty(len(condition), np.object_ if wide else np.int64)
        for chosen, value in sides:
            result[chosen] = value
        return result

    def binary(self, expr: Expr, op: str, a: Value, b: Value, rows: Ints | None) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            if self.length(rows) == 0:
                return 0
            if op in ALWAYS:
                return OPERATORS[op](a, b)
        wrong = b == 0 if op in ("//", "%") else (b < 0) | (b > MAX_BITS) if op in ("<<", ">>") else False
        if wrong is not False:
            self.refuse(expr, op, a, b, np.asarray(wrong), rows)
        return _operate(op, a, b)

    def refuse(self, expr: Expr, op: str, a: Value, b: Value, wrong: Value, rows: Ints | None) -> None:
        """Raises E0122 for the first row that is wrong."""
        if self.length(rows) and wrong.any():
            row = int(np.argmax(wrong))
            left, right = (int(v if isinstance(v, int) else v[row]) for v in (a, b))
            raise fail("E0122", f"cannot evaluate {left} {op} {right} for {self.label(row if rows is None else int(rows[row]))}", expr.span)

    def call(self, expr: Expr, name: str, args: list[Value], rows: Ints | None) -> Value:
        if wrong := wrong_count(name, len(args)):
            raise fail("E0123", wrong, expr.span)
        if name in ("min", "max"):
            if all(isinstance(arg, int) for arg in args):
                return FUNCTIONS[name][1](*args)
            result = args[0]
            for other in args[1:]:
                result = (np.minimum if name == "min" else np.maximum)(*_same(result, other))
            return result
        if name == "abs":
            if isinstance(args[0], int):
                return abs(args[0])
            negated, plain = _same(_negate(args[0]), args[0])
            return np.maximum(negated, plain)
        if name == "clog2":
            return _clog2(args[0])
        rounded = _negate(self.binary(expr, "//", _negate(args[0]), args[1], rows))
        return rounded if name == "ceil_div" else _operate("*", rounded, args[1])


def plain(value: Value) -> Value:
    """A numpy scalar as an int."""
    return value if isinstance(value, int) or value.ndim else int(value)


def _select(rows: Ints | None, chosen: Ints) -> Ints:
    return chosen if rows is None else rows[chosen]


def _integer(value: Value) -> Value:
    return int(value) if isinstance(value, bool) else np.asarray(value).astype(np.int64)


def _wide(value: Value) -> bool:
    return not LOWEST <= value <= HIGHEST if isinstance(value, int) else bool(value.dtype.hasobject)


def _same(a: Value, b: Value) -> tuple[Value, Value]:
    """Both as arrays of one type."""
    dtype = np.object_ if _wide(a) or _wide(b) else np.int64
    return np.asarray(a, dtype), np.asarray(b, dtype)


def _bounds(value: Value) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if value.size > FEW and not value.dtype.hasobject:
        return int(np.minimum.reduce(value, axis=None)), int(np.maximum.reduce(value, axis=None))
    numbers: list[int] = value.ravel().tolist()
    return (min(numbers), max(numbers)) if numbers else (0, 0)


def _negate(value: Value) -> Value:
    return _operate("-", 0, value)


def _operate(op: str, a: Value, b: Value) -> Value:
    """a op b, with Python integers where 64 bits might not do."""
    if isinstance(a, int) and isinstance(b, int):
        return OPERATORS[op](a, b)
    if op in EXTREMES:
        lowest, highest = EXTREMES[op](*_bounds(a), *_bounds(b))
        if lowest < LOWEST or highest > HIGHEST:
            return OPERATORS[op](np.asarray(a, np.object_), np.asarray(b, np.object_))
    return OPERATORS[op](*_same(a, b))


def _product(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    corners = a * c, a * d, b * c, b * d
    return min(corners), max(corners)


EXTREMES: Mapping[str, Callable[[int, int, int, int], tuple[int, int]]] = MappingProxyType(
    {
        "+": lambda a, b, c, d: (a + c, b + d),
        "-": lambda a, b, c, d: (a - d, b - c),
        "*": _product,
        "<<": lambda a, b, _, d: (min(a, a << max(d, 0)), max(b, b << max(d, 0))),
        "//": lambda a, b, _c, _d: (min(a, -b), max(b, -a)),
    }
)
"""The least and the largest result of an operation, or something beyond them: of a first operand from a to b, and a second from c to d."""


def _clog2(value: Value) -> Value:
    if isinstance(value, int):
        return clog2(value)
    if _wide(value):
        return np.array([max(int(v) - 1, 0).bit_length() for v in np.atleast_1d(value)], np.int64)
    return np.asarray(np.searchsorted(POWERS, np.maximum(value, 1)), np.int64)


def _broadcast(value: Value, count: int, expr: Expr) -> Ints:
    try:
        return _spread(np.asarray(value).astype(np.int64), count)
    except OverflowError:
        raise fail("E0122", "the result does not fit 64 bits", expr.span) from None


def _spread(value: Array, count: int) -> Array:
    """One value for each row."""
    return value if value.shape == (count,) else np.broadcast_to(value, (count,))
