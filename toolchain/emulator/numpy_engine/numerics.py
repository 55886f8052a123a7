"""Exact integer operations that take Python ints and int64 arrays alike."""

from collections.abc import Callable
from typing import Any

import numpy as np

from toolchain.spec.evaluate import clog2
from toolchain.spec.model import ScalarType

Value = Any
where: Callable[[Value, Value, Value], Value] = np.where
search: Callable[[Value, Value], Value] = np.searchsorted
POWERS = np.array([1 << n for n in range(63)], np.int64)


def is_int(value: Value) -> bool:
    """Whether a value is one Python int."""
    return value.__class__ is int


def is_array(value: Value) -> bool:
    """Whether a value differs, or may differ, between iterations."""
    return isinstance(value, np.ndarray)


def spread(value: Value, shape: tuple[int, ...]) -> Value:
    """np.broadcast_to, at no cost where there is nothing to do."""
    return value if np.shape(value) == shape else np.broadcast_to(value, shape)


def wide(value: Value) -> Value:
    """The value with room for arithmetic: int64 unless it is a Python int."""
    return value if value.__class__ is int or value.dtype == np.int64 else value.astype(np.int64)


def select(condition: Value, then: Value, other: Value) -> Value:
    """np.where that never leaves a type too small for a Python int, nor meets a signed with an unsigned one."""
    if is_int(then) or is_int(other) or then.dtype != other.dtype:
        then, other = _fitting(then, other), _fitting(other, then)
    return where(condition, then, other)


def _fitting(value: Value, beside: Value) -> Value:
    """The value widened unless it is an int that fits beside the other, or an array that the other fits beside."""
    if is_int(value) or (is_int(beside) and np.iinfo(value.dtype).min <= beside <= np.iinfo(value.dtype).max):
        return value
    return wide(value)


def extreme(op: str, a: Value, b: Value) -> Value:
    """The smaller or larger one; arrays of one stored type stay as small as they are."""
    if is_int(a) and is_int(b):
        return min(a, b) if op == "min" else max(a, b)
    if is_int(a):
        a, b = b, a
    if is_int(b):
        limits = np.iinfo(a.dtype)
        a = a if limits.min <= b <= limits.max else a.astype(np.int64)
    elif a.dtype != b.dtype:
        a, b = wide(a), wide(b)
    return np.minimum(a, b) if op == "min" else np.maximum(a, b)


def wrap(value: Value, kind: ScalarType) -> Value:
    """Modulo 2**bits, in the type's range."""
    if is_int(value):
        return (value - kind.low) % (1 << kind.bits) + kind.low
    if kind.bits == 64:
        return value
    if kind.bits in (8, 16, 32):
        return value.astype(f"{'i' if kind.signed else 'u'}{kind.bits // 8}").astype(np.int64)
    return ((value - kind.low) & ((1 << kind.bits) - 1)) + kind.low


def clamp(value: Value, low: int, high: int) -> Value:
    """The nearest number in [low, high]."""
    return extreme("min", extreme("max", value, low), high)


def round_shift(value: Value, amount: Value, rounding: str) -> Value:
    """value / 2**amount for amounts from 0 to 63, rounded to the nearest; ties as `rounding` says; `floor` rounds down."""
    if is_int(amount) and amount == 0:
        return value
    floor = value >> amount
    if rounding == "floor":
        return floor
    some = amount if is_int(amount) else np.maximum(amount, 1)
    up = (value >> (some - 1)) & 1
    if rounding != "half_up":
        tie = (value & ((1 << some) - 1)) == (1 << (some - 1))
        up = up & (1 - (tie & (floor % 2 == 0 if rounding == "half_even" else value < 0)))
    if not is_int(amount):
        up = select(amount > 0, up, 0)
    return floor + up


def ceil_log(value: Value) -> Value:
    """Bits needed to count `value` things."""
    if is_int(value):
        return clog2(value)
    return search(POWERS, np.maximum(value, 1))


def uniform(value: Value) -> Value:
    """An int when every entry is the same: what does not vary must not take part in broadcasting."""
    if is_int(value):
        return value
    first = value.item(0)
    return first if bool((value == first).all()) else value
