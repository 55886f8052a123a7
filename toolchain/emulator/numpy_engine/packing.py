"""One factor of a matrix product: elements gathered and laid out as a matrix."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.numpy_engine.data import Data
from toolchain.emulator.numpy_engine.frame import Frame
from toolchain.emulator.numpy_engine.lanes import names_of, storage_order
from toolchain.isa.semantics import ir

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Positions:
    """at: [batch, rows, sum], counted from `low`; `high` - `low` elements hold them all. mask: what takes part; None is all."""

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

    def one(self, f: Frame, at: int, dtype: type[Any]) -> NDArray[Any]:
        """The element at a position as a matrix [kept lanes, summed lanes]."""
        row = self.read(f, at)
        return (row if self.order is None else row[self.order]).reshape(self.lanes, self.summed).astype(dtype)

    def pack(self, f: Frame, places: Positions, dtype: type[Any]) -> NDArray[Any]:
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

    def _gathered(self, f: Frame, places: Positions, dtype: type[Any]) -> NDArray[Any]:
        """The rows, kept lanes first; elements used often are converted once, before they are gathered."""
        if 2 * (places.high - places.low) < places.at.size:
            rows = self.read(f, np.arange(places.low, places.high))
            return (rows if self.order is None else rows.take(self.order, axis=-1)).astype(dtype).take(places.at, axis=0)
        rows = self.read(f, places.at + places.low)
        return rows if self.order is None else rows.take(self.order, axis=-1)
