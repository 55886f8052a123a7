"""Assignments to temporaries, with the sums and extremes that loops gather in them; values wrap, saturate or are refused."""

import math
from collections.abc import Callable

import numpy as np

from toolchain.emulator.numpy_engine.contraction import find_product
from toolchain.emulator.numpy_engine.data import Data
from toolchain.emulator.numpy_engine.expressions import clamp, extreme, is_int, select, wide, wrap
from toolchain.emulator.numpy_engine.frame import Frame, Value
from toolchain.emulator.numpy_engine.loops import Action
from toolchain.emulator.numpy_engine.structure import Structure, gathering
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.floating import TRUTHS
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import ScalarType

Fit = Callable[[Frame, Value], Value]


def narrowed(kind: ScalarType, overflow: str, e: Expr | None, name: str) -> Fit:
    """The function that makes data fit a type. e: the expression of the data, if its range is known; name: for E0705."""
    if e is not None and fits(e, kind):
        return lambda _, value: value
    if overflow == "wrap":
        return lambda _, value: _wrapped(value, kind)
    if overflow == "saturate":
        return lambda _, value: clamp(value, kind.low, kind.high)

    def check(f: Frame, value: Value) -> Value:
        if is_int(value):
            wrong = not kind.low <= value <= kind.high
        else:
            wrong = bool(value.min() < kind.low or value.max() > kind.high) and _anywhere(f, (value < kind.low) | (value > kind.high))
        if wrong:
            raise f.fault("E0705", f"{name} is {kind} and cannot hold a result")
        return value

    return check


def _anywhere(f: Frame, wrong: Value) -> bool:
    if f.mask is not None and wrong.ndim >= f.mask.ndim:
        wrong = wrong & f.mask.reshape(f.mask.shape + (1,) * (wrong.ndim - f.mask.ndim))
    return bool(wrong.any())


def _wrapped(value: Value, kind: ScalarType) -> Value:
    if is_int(value) or kind.bits not in (8, 16, 32, 64):
        return wrap(value, kind)
    dtype = np.dtype(f"{'i' if kind.signed else 'u'}{kind.bits // 8}")
    return value if value.dtype == dtype else value.astype(dtype)


def fits(e: Expr, kind: ScalarType) -> bool:
    """Whether the form of an expression tells that it fits."""
    match e:
        case ex.Const(value=number):
            return kind.low <= number <= kind.high
        case ir.Narrow(type=inner, overflow=overflow, low=low, high=high):
            low, high = (inner.low, inner.high) if overflow == "wrap" else (low, high)
            return kind.low <= low and high <= kind.high
        case ir.Load(access=access):
            stored = access.view.element.scalar
            return kind.low <= stored.low and stored.high <= kind.high
        case ir.Float(op=op, type=source) if op not in TRUTHS and op != "to_bits":
            return source == kind
        case ir.ToFloat(type=target) | ir.ToInteger(type=target):
            return kind.low <= target.low and target.high <= kind.high
        case _:
            return False


class Gathering:
    """Temporaries of one instruction. A temporary has the axes of the loops around everything that touches it."""

    def __init__(self, data: Data, structure: Structure, semantics: ir.Semantics) -> None:
        self.data, self.structure, self.semantics, self.axes = data, structure, semantics, data.axes

    def set_temp(self, stmt: ir.SetTemp, again: bool) -> Action:
        """again: an earlier statement of the text has set it, so that iterations that take no part keep their value."""
        op, _ = gathering(stmt, self.semantics.temps[stmt.name])
        if op == "+":
            return self._sum(stmt)
        if op:
            return self._extreme(stmt, op)
        return self._assign(stmt, again)

    def _assign(self, stmt: ir.SetTemp, again: bool) -> Action:
        kind, slot = self.semantics.temps[stmt.name], self.data.temps[stmt.name]
        value, fit = self.data.value(stmt.value), narrowed(kind.type, kind.overflow, None if stmt.accumulate else stmt.value, stmt.name)
        shape, lift = self.axes.lane_shape(stmt.lanes), self.axes.lift
        borrowed = isinstance(stmt.value, ir.Load | ex.Choose)

        def assign(f: Frame) -> None:
            found = value(f)
            if stmt.accumulate:
                found = wide(found) + wide(f.temps[slot])
            found = fit(f, found)
            if again and f.mask is not None and f.temps[slot] is not None:
                found = select(lift(f.mask), found, f.temps[slot])
            f.temps[slot] = _spread(found.copy() if borrowed and not is_int(found) else found, shape)

        return assign

    def _kept(self, name: str) -> list[bool]:
        """Loop axes of a temporary."""
        return [axis < self.structure.temp_depth(name) or axis >= self.axes.nested for axis in range(self.axes.loops)]

    def _sum(self, stmt: ir.SetTemp) -> Action:
        kind, slot, keep = self.semantics.temps[stmt.name], self.data.temps[stmt.name], self._kept(stmt.name)
        product, fit = find_product(self.data, stmt.value), narrowed(kind.type, kind.overflow, None, stmt.name)
        value = self.data.value(stmt.value)
        sums = product.sums(keep) if product else None

        def add(f: Frame) -> None:
            found = sums(f) if sums else summed(self.data, f, value(f), keep)
            f.temps[slot] = fit(f, wide(f.temps[slot]) + found)

        return add

    def _extreme(self, stmt: ir.SetTemp, op: str) -> Action:
        kind, slot = self.semantics.temps[stmt.name], self.data.temps[stmt.name]
        _, rest = gathering(stmt, kind)
        value, fit = self.data.value(rest), narrowed(kind.type, kind.overflow, rest, stmt.name)
        gone = tuple(axis for axis, kept in enumerate(self._kept(stmt.name)) if not kept)
        combine = np.minimum if op == "min" else np.maximum

        def gather(f: Frame) -> None:
            found, old = value(f), f.temps[slot]
            if is_int(found):
                found = np.full((1,) * (self.axes.loops + len(self.axes.lanes)), found)
            if found.ndim == len(self.axes.lanes):
                found = found.reshape((1,) * self.axes.loops + found.shape)
            if f.mask is None:
                best = combine.reduce(found, axis=gone, keepdims=True) if gone else found
                f.temps[slot] = fit(f, extreme(op, old, best))
                return
            mask = self.axes.lift(f.mask)
            worst = np.iinfo(found.dtype).max if op == "min" else np.iinfo(found.dtype).min
            found = np.where(mask, found, found.dtype.type(worst))
            best, some = combine.reduce(found, axis=gone, keepdims=True), mask.any(axis=gone, keepdims=True)
            f.temps[slot] = fit(f, select(some, extreme(op, old, best), old))

        return gather


def summed(data: Data, f: Frame, found: Value, keep: list[bool]) -> Value:
    """Data added over the loop axes that are not kept, of the iterations that take part."""
    axes = data.axes
    gone = tuple(axis for axis in range(axes.loops) if not keep[axis] and f.extents[axis] > 1)
    if not gone and f.mask is None:
        return wide(found)
    if f.mask is not None:
        found = select(axes.lift(f.mask), found, 0)
    elif is_int(found) or found.ndim == len(axes.lanes):
        return wide(found) * math.prod(f.extents[axis] for axis in gone)
    absent = math.prod(f.extents[axis] for axis in gone if found.shape[axis] == 1)
    return wide(found).sum(axis=gone, keepdims=True) * absent


def _spread(found: Value, shape: tuple[int, ...]) -> Value:
    """Temporaries have their lanes, except those that are one number."""
    if is_int(found) or found.shape[found.ndim - len(shape) :] == shape:
        return found
    return np.broadcast_to(found, found.shape[: found.ndim - len(shape)] + shape)
