"""Sums of products as exact matrix products.

`sum over c of A[..][.., c] * B[..][.., c]`: a loop axis on which only A's address depends counts rows, one of B only
counts columns, one of both is a batch, and one the result does not keep is summed with the lanes.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.vectorised.data import Data
from toolchain.emulator.vectorised.frame import Frame, Run, TooLarge, Value
from toolchain.emulator.vectorised.lanes import is_whole, names_of, storage_order
from toolchain.emulator.vectorised.numerics import is_int
from toolchain.isa import ir
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr

PACKED = 1 << 24
"""Scalars of one operand that are packed at once: 64 MB as float32."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Operand:
    """One factor: its address, and its rows packed as [*loops, kept lanes, summed lanes]."""

    def __init__(self, data: Data, access: ir.Access, over: tuple[str, ...]) -> None:
        self.find, self.rows = data.address(access), data.rows(access)
        names, dims = names_of(access), access.view.element.dims
        self.kept = tuple(sorted((n for n in names if n not in over), key=data.axes.lanes.index))
        wanted = [names.index(n) for n in (*self.kept, *over)]
        order = storage_order(access.view).reshape(dims).transpose(wanted).reshape(-1)
        self.order = None if (order == np.arange(order.size)).all() else order
        self.summed = math.prod(data.axes.lane_extents[data.axes.lanes.index(n)] for n in over)
        self.lanes = order.size // self.summed
        kind = access.view.element.scalar
        self.magnitude = max(-kind.low, kind.high)

    def one(self, at: int, dtype: type[Any]) -> NDArray[Any]:
        """The element at a position as a matrix [kept lanes, summed lanes]."""
        row = self.rows(at)
        return (row if self.order is None else row[self.order]).reshape(self.lanes, self.summed).astype(dtype)

    def pack(self, at: Ints, mask: Bools | None, dtype: type[Any]) -> NDArray[Any]:
        """at, mask: [batch, rows, sum] -> [batch, rows * kept lanes, sum * summed lanes], zero where the mask is not set."""
        batch, count, length = at.shape
        rows = self._gathered(at, dtype)
        if mask is not None and not mask.all():
            rows *= mask[..., None]
        if self.order is not None:
            rows = rows.take(self.order, axis=-1)
        if self.lanes == 1:
            return rows.reshape(batch, count, -1).astype(dtype, copy=False)
        packed = np.empty((batch, count, self.lanes, length, self.summed), dtype)
        packed[...] = rows.reshape(batch, count, length, self.lanes, self.summed).swapaxes(2, 3)
        return packed.reshape(batch, count * self.lanes, -1)

    def _gathered(self, at: Ints, dtype: type[Any]) -> NDArray[Any]:
        """Elements used often are converted once, before they are gathered."""
        low, high = int(at.min()), int(at.max()) + 1
        if 2 * (high - low) < at.size:
            return self.rows(np.arange(low, high)).astype(dtype).take(at - low, axis=0)
        return self.rows(at)


@dataclass(frozen=True, slots=True)
class Operands:
    """The positions of both factors, [*loops]; mask: the iterations that take part."""

    a: Ints
    b: Ints
    mask: Bools | None

    def part(self, axis: int, chosen: Ints) -> "Operands":
        """Some of the iterations of one axis."""

        def take(values: NDArray[Any]) -> NDArray[Any]:
            return values.take(chosen, axis=axis) if values.shape[axis] > 1 else values

        return Operands(take(self.a), take(self.b), None if self.mask is None else take(self.mask))


class Product:
    """A sum of products over lanes, and over whichever loops the caller does not keep."""

    def __init__(self, data: Data, a: ir.Access, b: ir.Access, over: tuple[str, ...]) -> None:
        self.axes = data.axes
        self.a, self.b = Operand(data, a, over), Operand(data, b, over)
        largest = self.a.magnitude * self.b.magnitude
        self.dtype: type[Any] = np.float32 if largest << 6 <= 1 << 24 else np.float64
        self.longest = (1 << (24 if self.dtype is np.float32 else 53)) // largest
        self.largest = largest
        self.shape = self.axes.lane_shape((*self.a.kept, *self.b.kept))
        kept = [self.axes.lanes.index(n) for n in (*self.a.kept, *self.b.kept)]
        self.lane_order = sorted(range(len(kept)), key=lambda i: kept[i])
        self.lane_extents = tuple(self.axes.lane_extents[i] for i in kept)

    def sums(self, f: Frame, keep: list[bool]) -> Value:
        """The sum for every iteration of the kept axes, as data; those that take no part add nothing."""
        a, b = self.a.find(f), self.b.find(f)
        if is_int(a) and is_int(b) and f.mask is None:
            return self._one(a, b) * self._absent(f, keep, (), ())
        operands = self.operands(a, b, f.mask)
        return self.contract(f, operands, keep)

    def operands(self, a: Value, b: Value, mask: Bools | None) -> Operands:
        """Positions as arrays over all loop axes."""
        ones = (1,) * self.axes.loops
        both = [np.full(ones, x) if is_int(x) else x for x in (a, b)]
        return Operands(both[0], both[1], mask)

    def _one(self, a: int, b: int) -> Value:
        left, right = self.a.one(a, self.dtype), self.b.one(b, self.dtype)
        found = left @ right.T if self.a.summed <= self.longest else left.astype(np.int64) @ right.T.astype(np.int64)
        return self._lanes_in_order(found.astype(np.int64)).reshape(self.shape)

    def _lanes_in_order(self, found: NDArray[Any]) -> NDArray[Any]:
        if self.lane_order == list(range(len(self.lane_order))):
            return found
        return found.reshape(self.lane_extents).transpose(self.lane_order)

    def _absent(self, f: Frame, keep: list[bool], *shapes: tuple[int, ...]) -> int:
        """How often the same product is added: iterations of summed axes on which nothing depends."""
        times = 1
        for axis in range(self.axes.loops):
            if not keep[axis] and all(not shape or shape[axis] == 1 for shape in shapes):
                times *= f.extents[axis]
        return times

    def contract(self, f: Frame, operands: Operands, keep: list[bool]) -> Value:
        """As `sums`, for these operands."""
        a, b, mask_a, mask_b = _masked(operands)
        loops = range(self.axes.loops)
        batch = [d for d in loops if keep[d] and a.shape[d] > 1 and b.shape[d] > 1]
        rows = [d for d in loops if keep[d] and a.shape[d] > 1 and b.shape[d] == 1]
        columns = [d for d in loops if keep[d] and a.shape[d] == 1 and b.shape[d] > 1]
        summed = [d for d in loops if not keep[d] and max(a.shape[d], b.shape[d]) > 1]
        times = self._absent(f, keep, a.shape, b.shape)
        wide = tuple(max(a.shape[d], b.shape[d]) for d in summed)

        def arrange(values: NDArray[Any], outer: list[int]) -> NDArray[Any]:
            shape = [values.shape[d] for d in loops]
            for d, extent in zip(summed, wide, strict=True):
                shape[d] = extent
            full = np.broadcast_to(values, shape)
            rest = [d for d in loops if d not in (*batch, *outer, *summed)]
            moved = full.transpose([*batch, *outer, *summed, *rest])
            return moved.reshape(math.prod(shape[d] for d in batch), math.prod(shape[d] for d in outer), math.prod(wide))

        found = self._product(
            arrange(a, rows),
            None if mask_a is None else arrange(mask_a, rows),
            arrange(b, columns),
            None if mask_b is None else arrange(mask_b, columns),
        )
        return self._data(found, [a.shape[d] for d in (*batch, *rows)], [b.shape[d] for d in columns], [*batch, *rows], columns) * times

    def _data(self, found: NDArray[Any], left: list[int], right: list[int], left_axes: list[int], right_axes: list[int]) -> Value:
        """[batch, rows * lanes, columns * lanes] as data."""
        middle = tuple(self.axes.lane_extents[self.axes.lanes.index(n)] for n in self.a.kept)
        last = tuple(self.axes.lane_extents[self.axes.lanes.index(n)] for n in self.b.kept)
        split = found.reshape(*left, *middle, *right, *last)
        numbers = iter(range(split.ndim))
        position = {**{("loop", d): next(numbers) for d in left_axes}, **{("lane", n): next(numbers) for n in self.a.kept}}
        position |= {**{("loop", d): next(numbers) for d in right_axes}, **{("lane", n): next(numbers) for n in self.b.kept}}
        wanted = [("loop", d) for d in range(self.axes.loops)] + [("lane", n) for n in self.axes.lanes]
        shape = [split.shape[position[key]] if key in position else 1 for key in wanted]
        return split.transpose([position[key] for key in wanted if key in position]).reshape(shape)

    def _product(self, a: Ints, mask_a: Bools | None, b: Ints, mask_b: Bools | None) -> NDArray[Any]:
        """[batch, rows, sum] and [batch, columns, sum] -> exact [batch, rows * lanes, columns * lanes]"""
        length = a.shape[2] * self.a.summed
        if b.size * self.b.lanes * self.b.summed > PACKED or length * self.a.lanes * len(a) > PACKED:
            raise TooLarge
        right = self.b.pack(b, mask_b, self.dtype).swapaxes(1, 2)
        dtype = np.int32 if length * self.largest < 1 << 31 else np.int64
        found = np.empty((len(a), a.shape[1] * self.a.lanes, right.shape[2]), dtype)
        block = max(PACKED // (length * self.a.lanes * len(a)), 1)
        for start in range(0, a.shape[1], block):
            chosen = slice(start, start + block)
            left = self.a.pack(a[:, chosen], None if mask_a is None else mask_a[:, chosen], self.dtype)
            part = slice(start * self.a.lanes, start * self.a.lanes + left.shape[1])
            found[:, part] = left[..., : self.longest] @ right[:, : self.longest]
            for k in range(self.longest, length, self.longest):
                found[:, part] += (left[..., k : k + self.longest] @ right[:, k : k + self.longest]).astype(dtype)
        return found


def _masked(operands: Operands) -> tuple[Ints, Ints, Bools | None, Bools | None]:
    """Which factor the mask makes zero: the one that depends on all its axes, else A made to depend on them."""
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
    keep = [True] * data.axes.loops
    return lambda f: product.sums(f, keep)
