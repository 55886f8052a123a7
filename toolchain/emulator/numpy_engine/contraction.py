"""Sums of products as exact matrix products.

`sum over c of A[..][.., c] * B[..][.., c]`: a loop axis on which only A's address depends counts rows, one of B only
counts columns, one of both is a batch, and one the result does not keep is summed with the lanes. The elements of each
factor are gathered and laid out as a matrix.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.numpy_engine.data import Data
from toolchain.emulator.numpy_engine.expressions import is_int
from toolchain.emulator.numpy_engine.frame import Frame, Run, TooLargeError, Value
from toolchain.emulator.numpy_engine.storage import is_whole, names_of, storage_order
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.arrays import Array
from toolchain.spec.expr import Expr

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Positions:
    """at: [batch, rows, sum], counted from `low`; `high` - `low` elements hold them all. mask: the positions that take part; None is all."""

    at: Ints
    low: int
    high: int
    mask: Bools | None

    def rows(self, chosen: slice) -> "Positions":
        """Some of the rows."""
        return Positions(self.at[:, chosen], self.low, self.high, None if self.mask is None else self.mask[:, chosen])


def positions(at: Ints, mask: Bools | None) -> Positions:
    """at, mask: [batch, rows, sum]"""
    low, high = int(at.min()), int(at.max()) + 1
    return Positions(at - low, low, high, None if mask is None or mask.all() else mask)


class Operand:
    """A factor's address, and how its rows are packed: kept lanes, then summed lanes."""

    def __init__(self, data: Data, access: ir.Access, over: tuple[str, ...]) -> None:
        self.find, self.read = data.address(access), data.rows(access)
        names, dims = names_of(access), access.view.element.dims
        self.kept = tuple(sorted((n for n in names if n not in over), key=data.axes.lanes.index))
        wanted = [names.index(n) for n in (*self.kept, *over)]
        order = storage_order(access.view).reshape(dims).transpose(wanted).reshape(-1)
        self.order = None if (order == np.arange(order.size)).all() else order
        self.summed = math.prod(data.axes.lane_extents[data.axes.lanes.index(n)] for n in over)
        self.lanes = order.size // self.summed
        kind = access.view.element.scalar
        self.magnitude = max(-kind.low, kind.high)

    def one(self, f: Frame, at: int, dtype: type[np.generic]) -> Array:
        """The element at a position as a matrix [kept lanes, summed lanes]."""
        row = self.read(f, at)
        return (row if self.order is None else row[self.order]).reshape(self.lanes, self.summed).astype(dtype)

    def pack(self, f: Frame, places: Positions, dtype: type[np.generic]) -> Array:
        """[batch, rows * kept lanes, sum * summed lanes], zero where no iteration takes part."""
        batch, count, length = places.at.shape
        rows = self._gathered(f, places, dtype)
        if places.mask is not None:
            rows *= places.mask[..., None]
        if self.lanes == 1:
            return rows.reshape(batch, count, -1).astype(dtype, copy=False)
        packed = np.empty((batch, count, self.lanes, length, self.summed), dtype)
        packed[...] = rows.reshape(batch, count, length, self.lanes, self.summed).swapaxes(2, 3)
        return packed.reshape(batch, count * self.lanes, -1)

    def _gathered(self, f: Frame, places: Positions, dtype: type[np.generic]) -> Array:
        """The rows, kept lanes first; elements used often are converted once, before they are gathered."""
        if 2 * (places.high - places.low) < places.at.size:
            rows = self.read(f, np.arange(places.low, places.high))
            return (rows if self.order is None else rows.take(self.order, axis=-1)).astype(dtype).take(places.at, axis=0)
        rows = self.read(f, places.at + places.low)
        return rows if self.order is None else rows.take(self.order, axis=-1)


PACKED = 1 << 24
"""Scalars of one operand that are packed at once: 64 MB as float32."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The positions of both factors, [*loops]; mask: the iterations that take part."""

    a: Ints
    b: Ints
    mask: Bools | None

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of all operands that are there."""
        return tuple(x.shape for x in (self.a, self.b, self.mask) if x is not None)

    def part(self, axis: int, chosen: Ints) -> "Operands":
        """Some of the iterations of one axis."""

        def take(values: Array) -> Array:
            return values.take(chosen, axis=axis) if values.shape[axis] > 1 else values

        return Operands(take(self.a), take(self.b), None if self.mask is None else take(self.mask))

    def stacked(self, axis: int, groups: list[Ints]) -> "Operands | None":
        """Groups of iterations of one axis side by side: the axis counts groups, a new last axis the iterations in one.

        None unless all groups are as long and use the same elements of one factor, so that they are one product.
        """
        if len({len(chosen) for chosen in groups}) > 1:
            return None
        table = np.stack(groups)

        def stack(values: Array) -> Array:
            if values.shape[axis] == 1:
                return values[..., None]
            found = np.moveaxis(values.take(table, axis=axis), axis + 1, -1)
            first = found.take([0], axis=axis)
            return first if (found == first).all() else found

        a, b = stack(self.a), stack(self.b)
        if min(a.shape[axis], b.shape[axis]) > 1:
            return None
        return Operands(a, b, None if self.mask is None else stack(self.mask))


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """Layout of the factors of one product. shape, order: how [batch, rows, lanes, columns, lanes] becomes data; times: how often it counts."""

    a: Positions
    b: Positions
    split: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]
    times: int

    @property
    def size(self) -> int:
        """Array elements that keeping it takes."""
        return self.a.at.size + self.b.at.size


class Product:
    """A sum of products over lanes, and over whichever loops the caller does not keep."""

    def __init__(self, data: Data, a: ir.Access, b: ir.Access, over: tuple[str, ...]) -> None:
        self.axes, self.keys, self.needs = data.axes, data.scalars.keys, data.scalars.needs.all
        self.a, self.b = Operand(data, a, over), Operand(data, b, over)
        self.largest = self.a.magnitude * self.b.magnitude
        self.dtype: type[np.generic] = np.float32 if self.largest << 6 <= 1 << 24 else np.float64
        self.longest = (1 << (24 if self.dtype is np.float32 else 53)) // self.largest
        self.shape = self.axes.lane_shape((*self.a.kept, *self.b.kept))
        self.lanes = [tuple(self.axes.lane_extents[self.axes.lanes.index(n)] for n in side.kept) for side in (self.a, self.b)]
        self.in_order = [*self.a.kept, *self.b.kept] == sorted((*self.a.kept, *self.b.kept), key=self.axes.lanes.index)

    def sums(self, keep: list[bool]) -> Run:
        """A function for the sum in every iteration of the kept axes, as data; iterations that take no part add nothing."""
        planned = self.keys.remember(self.needs, lambda f: self.planned(f, keep), lambda plan: 1 if plan is None else plan.size)

        def sums(f: Frame) -> Value:
            plan = planned(f)
            return self.one(f, keep) if plan is None else self.product(f, plan)

        return sums

    def planned(self, f: Frame, keep: list[bool]) -> ProductPlan | None:
        """None where there is but one product."""
        operands = self.operands(f)
        return None if operands is None else self.plan(operands, keep, self.absent(f, keep, *operands.shapes))

    def operands(self, f: Frame) -> Operands | None:
        """Positions as arrays over all loop axes; None where each factor is one element."""
        a, b = self.a.find(f), self.b.find(f)
        if is_int(a) and is_int(b) and f.mask is None:
            return None
        ones = (1,) * self.axes.loops
        left, right = (np.full(ones, x) if is_int(x) else x for x in (a, b))
        return Operands(left, right, f.mask)

    def one(self, f: Frame, keep: list[bool]) -> Value:
        """The product of two elements."""
        left, right = self.a.one(f, self.a.find(f), self.dtype), self.b.one(f, self.b.find(f), self.dtype)
        found = left @ right.T if self.a.summed <= self.longest else left.astype(np.int64) @ right.T.astype(np.int64)
        found = found.astype(np.int64)
        times = self.absent(f, keep)
        if not self.in_order:
            order = sorted(range(len(names := (*self.a.kept, *self.b.kept))), key=lambda i: self.axes.lanes.index(names[i]))
            found = found.reshape(self.lanes[0] + self.lanes[1]).transpose(order)
        found = found.reshape(self.shape)
        return found if times == 1 else found * times

    def absent(self, f: Frame, keep: list[bool], *shapes: tuple[int, ...]) -> int:
        """How often the same product is added: iterations of summed axes on which nothing depends."""
        times = 1
        for axis, extent in enumerate(f.extents):
            if extent > 1 and not keep[axis] and all(shape[axis] == 1 for shape in shapes):
                times *= extent
        return times

    def plan(self, operands: Operands, keep: list[bool], times: int) -> ProductPlan:
        """Sorts the axes into batch, rows, columns and sum. times: how often each product counts."""
        a, b, mask_a, mask_b = _masked(operands)
        loops = range(a.ndim)
        batch = [d for d in loops if keep[d] and a.shape[d] > 1 and b.shape[d] > 1]
        rows = [d for d in loops if keep[d] and a.shape[d] > 1 and b.shape[d] == 1]
        columns = [d for d in loops if keep[d] and a.shape[d] == 1 and b.shape[d] > 1]
        summed = {d: max(a.shape[d], b.shape[d]) for d in loops if not keep[d] and max(a.shape[d], b.shape[d]) > 1}
        places_a = positions(_arranged(a, batch, rows, summed), None if mask_a is None else _arranged(mask_a, batch, rows, summed))
        places_b = positions(_arranged(b, batch, columns, summed), None if mask_b is None else _arranged(mask_b, batch, columns, summed))
        split = (*(a.shape[d] for d in (*batch, *rows)), *self.lanes[0], *(b.shape[d] for d in columns), *self.lanes[1])
        return ProductPlan(places_a, places_b, split, *self._layout([*batch, *rows], columns, split), times)

    def _layout(self, left: list[int], right: list[int], split: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Permutation from the split product's axes to the data's, and the shape of the data."""
        made = [*left, *self.a.kept, *right, *self.b.kept]
        wanted = [*range(self.axes.loops), *self.axes.lanes]
        order = tuple(made.index(key) for key in wanted if key in made)
        return order, tuple(split[made.index(key)] if key in made else 1 for key in wanted)

    def product(self, f: Frame, plan: ProductPlan) -> Value:
        """Executes a plan: exact data."""
        found = self._matrices(f, plan.a, plan.b).reshape(plan.split).transpose(plan.order).reshape(plan.shape)
        return found if plan.times == 1 else found.astype(np.int64) * plan.times

    def _matrices(self, f: Frame, a: Positions, b: Positions) -> Array:
        """[batch, rows, sum] and [batch, columns, sum] -> exact [batch, rows * lanes, columns * lanes]"""
        batch, count, length = len(a.at), a.at.shape[1], a.at.shape[2] * self.a.summed
        if b.at.size * self.b.lanes * self.b.summed > PACKED or length * self.a.lanes * batch > PACKED:
            raise TooLargeError
        right = self.b.pack(f, b, self.dtype).swapaxes(1, 2)
        dtype = np.int32 if length * self.largest < 1 << 31 else np.int64
        block = max(PACKED // (length * self.a.lanes * batch), 1)
        if count <= block and length <= self.longest:
            return (self.a.pack(f, a, self.dtype) @ right).astype(dtype)
        found = np.empty((batch, count * self.a.lanes, right.shape[2]), dtype)
        for start in range(0, count, block):
            left = self.a.pack(f, a.rows(slice(start, start + block)), self.dtype)
            part = slice(start * self.a.lanes, start * self.a.lanes + left.shape[1])
            found[:, part] = left[..., : self.longest] @ right[:, : self.longest]
            for k in range(self.longest, length, self.longest):
                found[:, part] += (left[..., k : k + self.longest] @ right[:, k : k + self.longest]).astype(dtype)
        return found


def _arranged(values: Array, batch: list[int], outer: list[int], summed: dict[int, int]) -> Array:
    """[*loops] -> [batch, outer, sum]"""
    sizes: tuple[int, ...] = values.shape
    shape = tuple(summed.get(d, size) for d, size in enumerate(sizes))
    rest = [d for d in range(len(shape)) if d not in (*batch, *outer, *summed)]
    moved = np.broadcast_to(values, shape).transpose([*batch, *outer, *summed, *rest])
    return moved.reshape(math.prod(shape[d] for d in batch), math.prod(shape[d] for d in outer), math.prod(summed.values()))


def _masked(operands: Operands) -> tuple[Ints, Ints, Bools | None, Bools | None]:
    """The factor that the mask zeroes: the one that depends on all its axes, else A made to depend on them."""
    a, b, mask = operands.a, operands.b, operands.mask
    if mask is None:
        return a, b, None, None
    if np.broadcast_shapes(a.shape, mask.shape) != a.shape and np.broadcast_shapes(b.shape, mask.shape) == b.shape:
        return a, b, None, np.broadcast_to(mask, b.shape)
    shape = np.broadcast_shapes(a.shape, mask.shape)
    return np.broadcast_to(a, shape), b, np.broadcast_to(mask, shape), None


def find_product(data: Data, e: Expr) -> Product | None:
    """The matrix product behind a sum of products of two stored elements, where float arithmetic can do it exactly."""
    match e:
        case ir.Reduce(op="+", value=ex.Binary(op="*", left=ir.Load(access=a), right=ir.Load(access=b)), over=over):
            pass
        case _:
            return None
    if not is_whole(a) or not is_whole(b) or not a.lanes or not b.lanes:
        return None
    if set(names_of(a)) & set(names_of(b)) != set(over) or a.view.element.scalar.bits + b.view.element.scalar.bits > 40:
        return None
    return Product(data, a, b, over)


def products(data: Data, e: ir.Reduce) -> Run | None:
    """A function for a sum of products anywhere in an expression: every loop is kept."""
    product = find_product(data, e)
    if product is None:
        return None
    return product.sums([True] * data.axes.loops)
