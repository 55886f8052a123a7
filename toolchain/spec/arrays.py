"""Evaluates integer expressions over numpy arrays, exactly or not at all."""

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from toolchain.spec.errors import fail
from toolchain.spec.evaluate import OPERATORS
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Name, Unary

Array = NDArray[Any]
"""An array of any dtype and shape: where a function takes them all, or its docstring names them."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Reals = NDArray[np.float64]
LIMIT = 1 << 62
SPARSE = 64
"""So many times as far apart as there are values, these are sorted instead of marked."""
Number = TypeVar("Number", np.int64, np.float64)
_GROWTH: dict[str, Callable[[int, int], int]] = {"*": operator.mul, "<<": operator.lshift, "+": operator.add, "-": operator.add}
"""The largest magnitude of a result, of those of its operands."""


def _ceil_div(a: Ints, b: Ints) -> Ints:
    return -(-a // b)


def _align(a: Ints, b: Ints) -> Ints:
    return _ceil_div(a, b) * b


def _least(*values: Ints) -> Ints:
    return reduce(np.minimum, values)


def _greatest(*values: Ints) -> Ints:
    return reduce(np.maximum, values)


def _clog2(a: Ints) -> Ints:
    return sum(((a - 1) >> bit > 0).astype(np.int64) for bit in range(63)) + np.zeros_like(a)


_FUNCTIONS: dict[str, Callable[..., Ints]] = {
    "min": _least, "max": _greatest, "abs": np.abs, "ceil_div": _ceil_div, "align": _align, "clog2": _clog2,
}  # fmt: skip


def evaluate_arrays(expr: Expr, names: Mapping[str, Ints]) -> Ints:
    """One value for each row of the named arrays (int64, at least one name, shapes that broadcast; a value without axes takes the first one's).

    Both sides of a choice are evaluated. Raises UserError E0122 for a division by zero, a bad shift, a value past 62
    bits or a name or call that is not there.
    """
    found = _value(expr, names)
    return found if found.ndim else np.full_like(next(iter(names.values())), found)


def _value(expr: Expr, names: Mapping[str, Ints]) -> Ints:
    """As `evaluate_arrays`, but a value without a name in it has no axes."""
    match expr:
        case Const(value=number):
            if abs(number) >= LIMIT:
                raise fail("E0122", f"{number} is too large here", expr.span)
            return np.array(number, np.int64)
        case Name(id=name) if name in names:
            return names[name]
        case Unary(op=op, value=inner):
            number = _value(inner, names)
            return np.asarray(-number if op == "-" else ~number if op == "~" else number == 0, dtype=np.int64)
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            a, b = _value(left, names), _value(right, names)
            _check_operands(op, a, b, expr)
            return np.asarray(OPERATORS[op](a, b), dtype=np.int64)
        case Logic(op=op, values=values):
            truth = [_value(v, names) != 0 for v in values]
            return np.asarray(reduce(np.logical_and if op == "and" else np.logical_or, truth), dtype=np.int64)
        case Choose(condition=condition, then=then, other=other):
            return np.where(_value(condition, names) != 0, _value(then, names), _value(other, names))
        case Call(function=Name(id=name), args=args) if name in _FUNCTIONS:
            numbers = [_value(a, names) for a in args]
            if name in ("ceil_div", "align"):
                _check_operands("//", numbers[0], numbers[1], expr)
            return np.asarray(_FUNCTIONS[name](*numbers))
        case _:
            raise fail("E0122", "this cannot be evaluated for many elements at once", expr.span)


def _check_operands(op: str, a: Ints, b: Ints, expr: Expr) -> None:
    if op in ("//", "%") and not np.all(b):
        raise fail("E0122", "this divides by zero", expr.span)
    if op in ("<<", ">>") and np.any((b < 0) | (b > 62)):
        raise fail("E0122", "this shifts by a negative amount or by more than 62", expr.span)
    if op in _GROWTH and _GROWTH[op](_magnitude(a), _magnitude(b)) >= LIMIT:
        raise fail("E0122", "this may pass 62 bits", expr.span)


def _magnitude(values: Ints) -> int:
    return int(np.abs(values).max(initial=0)) if values.ndim else abs(int(values))


def rows_of(columns: Mapping[str, NDArray[Number]], kept: NDArray[np.bool_] | Ints) -> dict[str, NDArray[Number]]:
    """The kept rows of every column; a value without axes is that of all rows."""
    return {name: column[kept] if column.ndim else column for name, column in columns.items()}


def distinct(values: Ints) -> Ints:
    """The different values in order, as `np.unique` finds them in an array of one axis. Values that lie close together are marked in a row of
    flags, which takes a fraction of the time that sorting does."""
    marks = _marks(values)
    return _sorted_once(values) if marks is None else np.flatnonzero(marks[0]) + marks[1]


def _sorted_once(values: Ints) -> Ints:
    """As `np.unique`, which loads masked arrays to see whether it was given one: a tenth of a short command's time."""
    ordered = np.sort(values)
    return ordered[np.concatenate([np.ones(min(len(ordered), 1), np.bool_), ordered[1:] != ordered[:-1]])]


def ranked(values: Ints) -> tuple[Ints, int]:
    """int64: the place of each value among the different ones in order, and how many these are."""
    marks = _marks(values)
    if marks is None:
        different = _sorted_once(values)
        return np.searchsorted(different, values), len(different)
    places = np.cumsum(marks[0], dtype=np.int32)
    return (places[values - marks[1]] - 1).astype(np.int64), int(places[-1])


def _marks(values: Ints) -> tuple[NDArray[np.bool_], int] | None:
    """A flag for each number from the first value to the last, and the first value; None where they would be too many."""
    if not len(values):
        return None
    first, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if span > SPARSE * len(values):
        return None
    marks = np.zeros(span, np.bool_)
    marks[values - first] = True
    return marks, first
