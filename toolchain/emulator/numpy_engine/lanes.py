"""Between an element as it is stored, one row of scalars, and data with one axis for each lane name."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.numpy_engine.frame import Axes, Frame, Run, Value
from toolchain.emulator.numpy_engine.numerics import is_int, spread
from toolchain.isa.semantics import ir
from toolchain.spec.model import View

Rows = NDArray[Any]
"""[*loops, scalars of an element in storage order]"""


def names_of(access: ir.Access) -> tuple[str, ...]:
    """The lane names of an access, in the order of its dimensions."""
    return tuple(lane for lane in access.lanes or () if isinstance(lane, str))


def is_whole(access: ir.Access) -> bool:
    """Whether every lane of the element is touched once: all are names, none twice."""
    return len(set(names_of(access))) == len(access.lanes or ())


def storage_order(view: View) -> NDArray[np.int64]:
    """For every lane, row-major, which scalar of the stored element it is."""
    return np.array(view.offsets, np.int64) * 8 // view.element.scalar.bits


class WholeLanes:
    """An access whose lanes are all names."""

    def __init__(self, access: ir.Access, axes: Axes) -> None:
        names = names_of(access)
        order = sorted(range(len(names)), key=lambda i: axes.lanes.index(names[i]))
        grid = storage_order(access.view).reshape(access.view.element.dims).transpose(order).reshape(-1)
        self.order = None if (grid == np.arange(grid.size)).all() else grid
        self.back = None if self.order is None else np.argsort(grid)
        self.shape = axes.lane_shape(names)

    def spread(self, _: Frame, rows: Rows) -> Value:
        """Rows as data."""
        if self.order is not None:
            rows = rows.take(self.order, axis=-1)
        return rows.reshape(rows.shape[:-1] + self.shape)

    def gather(self, data: Value, loops: tuple[int, ...]) -> Rows:
        """Data, spread over these loops (none: one element) and all lanes, as rows."""
        if not loops and np.ndim(data) > len(self.shape):
            data = data.reshape(data.shape[-len(self.shape) :])
        rows = spread(data, loops + self.shape).reshape((*loops, -1))
        return rows if self.back is None else rows.take(self.back, axis=-1)


class ChosenLanes:
    """An access that fixes some lanes by an expression, or names one twice."""

    def __init__(self, access: ir.Access, axes: Axes, fixed: dict[int, Run]) -> None:
        self.access, self.axes, self.fixed = access, axes, fixed
        self.order = storage_order(access.view)
        self.dims = access.view.element.dims

    def positions(self, f: Frame) -> NDArray[np.int64]:
        """The stored scalar for the lanes of every iteration, as data."""
        number: Value = 0
        for dimension, lane in enumerate(self.access.lanes or ()):
            extent = self.dims[dimension]
            if isinstance(lane, str):
                at: Value = np.arange(extent).reshape(self.axes.lane_shape((lane,)))
            else:
                at = self.axes.lift(self._legal(f, self.fixed[dimension](f), extent))
            number = number * extent + at
        return self.order[number if not is_int(number) else np.full((1,) * len(self.axes.lanes), number)]

    def _legal(self, f: Frame, at: Value, extent: int) -> Value:
        wrong = np.asarray((at < 0) | (at >= extent))
        if not wrong.any():
            return at
        bad = wrong if f.mask is None else wrong & f.mask
        if bad.any():
            shown = int(np.broadcast_to(at, bad.shape)[bad][0])
            raise f.fault("E0701", f"lane {shown} is outside '{self.access.view.name}', which has {extent}")
        return 0 if is_int(at) else np.where(wrong, 0, at)

    def spread(self, f: Frame, rows: Rows) -> Value:
        """Rows as data."""
        at = self.positions(f)
        if at.ndim == len(self.axes.lanes) and rows.ndim == 1:
            return rows[at]
        loops = np.broadcast_shapes(rows.shape[:-1] or (1,) * self.axes.loops, at.shape[: -len(self.axes.lanes)] or (1,) * self.axes.loops)
        lanes = at.shape[at.ndim - len(self.axes.lanes) :]
        count = math.prod(loops)
        flat = np.broadcast_to(rows, (*loops, rows.shape[-1])).reshape(count, -1)
        chosen = np.broadcast_to(at, loops + lanes).reshape(count, -1)
        return np.take_along_axis(flat, chosen, 1).reshape(loops + lanes)
