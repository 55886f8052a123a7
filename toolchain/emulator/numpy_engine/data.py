"""Data expressions: lanes of elements and temporaries, reductions over lanes, and whole elements copied as they are stored."""

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from toolchain.emulator.numpy_engine.addresses import Address, Scalars
from toolchain.emulator.numpy_engine.expressions import Expressions, is_array, is_int, select, where, wide
from toolchain.emulator.numpy_engine.floating import factors, floating, reduced
from toolchain.emulator.numpy_engine.frame import ELEMENTS, Axes, Frame, Run, TooLargeError, Value
from toolchain.emulator.numpy_engine.storage import ChosenLanes, Reader, WholeLanes, is_whole, scalar_dtype
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import View

T = TypeVar("T")
Product = Callable[[ir.Reduce], Run | None]
"""A faster function for a sum of products, where there is one."""


def is_data(e: Expr) -> bool:
    """Whether an expression depends on lanes."""
    return any(ir.is_lane_leaf(node) for node in ex.walk(e))


class Data(Expressions):
    """temps: where each temporary is kept in a frame. product: turns a sum of products into something faster, if it can."""

    def __init__(self, scalars: Scalars, temps: Mapping[str, int], product: Product) -> None:
        self.scalars, self.temps, self.product = scalars, temps, product
        self.axes: Axes = scalars.axes

    def lift(self, value: Value) -> Value:
        return self.axes.lift(value)

    def narrow_to(self, f: Frame, condition: Value) -> None:
        f.lazy = condition if f.lazy is None else f.lazy & condition

    def value(self, e: Expr) -> Run:
        if is_data(e):
            return super().value(e)
        scalar, known, lift = self.scalars.value(e), self.scalars.remembered(e), self.axes.lift
        return lambda f: lift((known if f.lazy is None else scalar)(f))

    def truth(self, e: Expr) -> Run:
        """A condition on data must not be narrowed by the masks of scalars."""
        if isinstance(e, ex.Logic) and is_data(e):
            return self._all_of(e)
        return super().truth(e)

    def _all_of(self, e: ex.Logic) -> Run:
        """Operands in order: scalars rule out elements for those after them, data only values."""
        conjunction, scalars, lift = e.op == "and", self.scalars, self.axes.lift
        tests = self._tests(e.values)

        def logic(f: Frame) -> Value:
            mask, lazy, known = f.mask, f.lazy, None
            for test, is_scalar in tests:
                found = test(f)
                if is_scalar and not is_array(found):
                    if bool(found) != conjunction:
                        known = not conjunction
                        break
                    continue
                if is_scalar:
                    scalars.narrow_to(f, found if conjunction else ~found)
                    found = lift(found)
                found = np.asarray(found).astype(np.bool_)
                known = found if known is None else (known & found if conjunction else known | found)
                self.narrow_to(f, known if conjunction else ~known)
            f.mask, f.lazy = mask, lazy
            return conjunction if known is None else known

        return logic

    def _tests(self, values: tuple[Expr, ...]) -> list[tuple[Run, bool]]:
        """Each operand's function, and whether it is a scalar; those after a scalar are asked only where it leaves the answer open."""
        if not values:
            return []
        first, rest = values[0], values[1:]
        if is_data(first):
            return [(self.truth(first), False), *self._tests(rest)]
        return [(self.scalars.remembered_truth(first), True), *self.within(first, lambda: self._tests(rest))]

    def leaf(self, e: Expr) -> Run:
        match e:
            case ir.Load(access=access):
                return self.load(access)
            case ir.Temp(name=name):
                at = self.temps[name]
                return lambda f: f.temps[at]
            case ir.Lane(name=name):
                return self._position(name)
            case ir.Float() | ir.ToFloat() | ir.ToInteger():
                return floating(e, [self.value(part) for part in ex.children(e)])
            case ir.FloatReduce():
                return self._float_reduce(e)
            case ir.Lookup():
                return self._lookup(e)
            case ir.Reduce():
                return self.product(e) or self._reduce(e)
            case _:
                raise TypeError(e)

    def _position(self, lane: str) -> Run:
        axis, extents = self.axes.lane_axis(lane), self.axes.lane_extents
        shape = [1] * len(extents)
        shape[axis] = extents[axis]
        positions = np.arange(extents[axis]).reshape(shape)
        return lambda _: positions

    def choose(self, e: ex.Choose) -> Run:
        if is_data(e.condition):
            return self._choose_lanes(e)
        then, other = self.within(e.condition, lambda: (self.value(e.then), self.value(e.other)))
        lift = self.axes.lift
        return self.scalars.chosen(self.scalars.remembered_truth(e.condition), then, other, lambda found, yes, no: select(lift(found), yes, no))

    def within(self, condition: Expr, build: Callable[[], T]) -> T:
        """Builds a value that is asked for only where a condition holds, or only where it does not."""
        needs = self.scalars.needs
        before, needs.here = needs.here, needs.of(condition)
        built = build()
        needs.here = before
        return built

    def _choose_lanes(self, e: ex.Choose) -> Run:
        test, then, other = self.truth(e.condition), self.value(e.then), self.value(e.other)

        def choose(f: Frame) -> Value:
            found, before = test(f), f.lazy
            if not is_array(found):
                return then(f) if found else other(f)
            self.narrow_to(f, found)
            yes = then(f)
            f.lazy = before
            self.narrow_to(f, ~found)
            no = other(f)
            f.lazy = before
            return select(found, yes, no)

        return choose

    def load(self, access: ir.Access) -> Run:
        """The lanes of an element as they are stored, not widened."""
        find, read, size = self.address(access), self.rows(access), access.view.element.lanes
        lanes = self.lanes(access)

        def load(f: Frame) -> Value:
            at = find(f)
            if not is_int(at) and at.size * size > ELEMENTS:
                raise TooLargeError
            return lanes.spread(f, read(f, at))

        return load

    def address(self, access: ir.Access) -> Address:
        """The function that finds an access's element, watched where the instruction also writes its memory."""
        return self.scalars.watch(access, self.scalars.address(access))

    def lanes(self, access: ir.Access) -> WholeLanes | ChosenLanes:
        """How rows become data."""
        if is_whole(access):
            return WholeLanes(access, self.axes)
        fixed = {i: self.scalars.value(lane) for i, lane in enumerate(access.lanes or ()) if isinstance(lane, Expr)}
        return ChosenLanes(access, self.axes, fixed)

    def rows(self, access: ir.Access) -> Reader:
        """positions -> the stored scalars, [*positions.shape, scalars of an element]"""
        return self.scalars.storage.reader(access.view, scalar_dtype(access.view.element.scalar))

    def _reduce(self, e: ir.Reduce) -> Run:
        inner, over = self.value(e.value), tuple(self.axes.lane_axis(lane) for lane in e.over)
        missing = [self.axes.lane_extents[axis] for axis in over]

        def reduce(f: Frame) -> Value:
            found = wide(inner(f))
            if is_int(found):
                return found * math.prod(missing) if e.op == "+" else found
            if e.op != "+":
                return (np.minimum if e.op == "min" else np.maximum).reduce(found, axis=over, keepdims=True)
            absent = math.prod(extent for axis, extent in zip(over, missing, strict=True) if found.shape[axis] != extent)
            return found.sum(axis=over, keepdims=True) * absent

        return reduce

    def _lookup(self, e: ir.Lookup) -> Run:
        """Where a choice by data takes the other side, any place of the lane will do."""
        inner, position, axis = self.value(e.value), self.value(e.position), self.axes.lane_axis(e.over[0])

        def lookup(f: Frame) -> Value:
            table, at = np.asarray(inner(f)), np.asarray(position(f))
            rank = max(table.ndim, at.ndim, -axis)
            table, at = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (table, at))
            if table.shape[axis] == 1:  # the same value everywhere
                return table
            at = np.clip(at, 0, table.shape[axis] - 1)
            shape = np.broadcast_shapes(table.take([0], axis).shape, at.shape)
            whole = list(shape)
            whole[axis] = table.shape[axis]
            return np.take_along_axis(np.broadcast_to(table, whole), np.broadcast_to(at, shape), axis)

        return lookup

    def _float_reduce(self, e: ir.FloatReduce) -> Run:
        parts = [self.value(v) for v in factors(e)]
        over, whole = tuple(self.axes.lane_axis(lane) for lane in e.over), self.axes.lane_shape(e.over)

        def reduce(f: Frame) -> Value:
            found = [np.asarray(part(f)) for part in parts]
            shape = np.broadcast_shapes(whole, *(x.shape for x in found))
            if math.prod(shape) > ELEMENTS:
                raise TooLargeError
            return reduced(e, found, over, shape)

        return reduce


def copied(data: Data, e: Expr, view: View) -> Callable[[Frame], Value]:
    """uint8 [*loops, bytes of an element]"""
    match e:
        case ex.Choose(condition=condition, then=then, other=other):
            sides = data.within(condition, lambda: (copied(data, then, view), copied(data, other, view)))
            return data.scalars.chosen(data.scalars.remembered_truth(condition), *sides, _merged)
        case ir.Load(access=access) | ir.ControlRead(access=access, member=""):
            return _element(data, access)
        case ex.Const(value=0):
            zeros = np.zeros(view.element.bytes, np.uint8)
            return lambda _: zeros
        case _:
            raise TypeError(e)


def _element(data: Data, access: ir.Access) -> Callable[[Frame], Value]:
    find, read, size = data.address(access), data.scalars.storage.reader(access.view, np.dtype(np.uint8)), access.view.element.bytes

    def element(f: Frame) -> Value:
        at = find(f)
        if not is_int(at) and at.size * size > 8 * ELEMENTS:
            raise TooLargeError
        return read(f, at)

    return element


def _merged(found: Value, yes: Value, no: Value) -> Value:
    """found: bool [*loops]; yes: whole elements, their own; no: as many or one"""
    if yes.shape[:-1] != found.shape:
        return where(found[..., None], yes, no)
    yes[~found] = no if no.ndim == 1 else np.broadcast_to(no, yes.shape)[~found]
    return yes
