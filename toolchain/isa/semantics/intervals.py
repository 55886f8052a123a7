"""Interval arithmetic on integers: bounds of an operator's result from those of its operands."""

import itertools
from collections.abc import Callable

from toolchain.spec.evaluate import OPERATORS, ceil_div, clog2

Interval = tuple[int, int]
"""(low, high), both included."""

UNBOUNDED = 1 << 1000
"""Stands for no bound at all; results are clamped to it."""

BITS: Interval = (0, 1)
INT64: Interval = (-(1 << 63), (1 << 63) - 1)
EVERYTHING: Interval = (-UNBOUNDED, UNBOUNDED)


def hull(*parts: Interval) -> Interval:
    """The least interval that holds all parts."""
    return min(low for low, _ in parts), max(high for _, high in parts)


def meet(a: Interval, b: Interval) -> Interval | None:
    """The common part, or None."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else None


def inside(a: Interval, b: Interval) -> bool:
    """Whether all of a lies in b."""
    return b[0] <= a[0] and a[1] <= b[1]


def clamp(a: Interval) -> Interval:
    """The interval with bounds no wider than UNBOUNDED."""
    return max(a[0], -UNBOUNDED), min(a[1], UNBOUNDED)


def corners(function: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    """For a function that is monotone in each operand."""
    found = [function(x, y) for x, y in itertools.product(a, b)]
    return clamp((min(found), max(found)))


def binary(op: str, a: Interval, b: Interval) -> Interval:
    """`+ - * // % << >> & | ^`. A divisor of zero and a negative shift amount are left out: they are errors elsewhere."""
    if op in ("+", "-", "*"):
        return clamp((a[0] - b[1], a[1] - b[0])) if op == "-" else corners(OPERATORS[op], a, b)
    if op in ("<<", ">>"):
        return corners(OPERATORS[op], a, (min(max(b[0], 0), 1100), min(max(b[1], 0), 1100)))
    if op == "//":
        return _divided(OPERATORS[op], a, b)
    return _modulo(a, b) if op == "%" else _bitwise(op, a, b)


def _divided(function: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    sides = [part for part in (meet(b, (-UNBOUNDED, -1)), meet(b, (1, UNBOUNDED))) if part]
    return hull(*(corners(function, a, part) for part in sides)) if sides else (0, 0)


def _modulo(a: Interval, b: Interval) -> Interval:
    if b[0] > 0 and a[0] >= 0 and a[1] < b[0]:
        return a
    return (min(0, b[0] + 1), max(0, b[1] - 1))


def _bitwise(op: str, a: Interval, b: Interval) -> Interval:
    if op == "&" and (a[0] >= 0 or b[0] >= 0):
        return 0, min(high for low, high in (a, b) if low >= 0)
    bits = max(x.bit_length() for x in (*a, *b))
    return (0 if a[0] >= 0 and b[0] >= 0 else -(1 << bits)), (1 << bits) - 1


def compare(op: str, a: Interval, b: Interval) -> Interval:
    """1 or 0 where the bounds decide it, else both."""
    if op in (">", ">="):
        return compare("<" if op == ">" else "<=", b, a)
    if op in ("==", "!="):
        same = BITS if meet(a, b) else (0, 0)
        same = (1, 1) if a == b and a[0] == a[1] else same
        return same if op == "==" else (1 - same[1], 1 - same[0])
    always = a[1] < b[0] if op == "<" else a[1] <= b[0]
    never = a[0] >= b[1] if op == "<" else a[0] > b[1]
    return (int(always), int(not never))


def call(name: str, args: list[Interval]) -> Interval:
    """The functions of toolchain/spec/evaluate.py."""
    match name, args:
        case (("min" | "max"), _):
            choose = min if name == "min" else max
            return choose(low for low, _ in args), choose(high for _, high in args)
        case "abs", [(low, high)]:
            return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        case "ceil_div", [a, b]:
            return _divided(ceil_div, a, b)
        case "clog2", [(low, high)]:
            return clog2(low), clog2(high)
        case "align", [a, b] if b[0] > 0:
            return clamp((a[0], a[1] + b[1] - 1))
        case _:
            return EVERYTHING


def accumulated(start: Interval, step: Interval, times: int) -> Interval:
    """`start` plus between none and `times` steps."""
    return clamp((start[0] + min(step[0], 0) * times, start[1] + max(step[1], 0) * times))


def pull(op: str, a: Interval, b: Interval) -> Interval | None:
    """The part of `a` that is left where `a op b` holds; None where it never does."""
    match op:
        case "<":
            return meet(a, (-UNBOUNDED, b[1] - 1))
        case "<=":
            return meet(a, (-UNBOUNDED, b[1]))
        case ">":
            return meet(a, (b[0] + 1, UNBOUNDED))
        case ">=":
            return meet(a, (b[0], UNBOUNDED))
        case "==":
            return meet(a, b)
        case _ if b[0] == b[1]:
            return meet(a, (a[0] + (a[0] == b[0]), a[1] - (a[1] == b[0])))
        case _:
            return a
