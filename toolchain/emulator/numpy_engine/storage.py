"""The bytes of memories as arrays of elements, read and written at positions, and as data with one axis for each lane name.

A position counts steps from the start of the first instance: whole elements where every address of a view is a
multiple of the element's size, else bytes.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.numpy_engine.expressions import in_range, is_int, spread
from toolchain.emulator.numpy_engine.frame import ArrayLayout, Axes, Frame, Run, Value
from toolchain.isa.semantics import ir
from toolchain.spec.arrays import Array
from toolchain.spec.model import Machine, Memory, ScalarType, View

Bytes = NDArray[np.uint8]


def step_of(memory: Memory, view: View) -> int:
    """Bytes of a step of a view's positions."""
    size = view.element.bytes
    spans = (view.unit or memory.element.bytes, memory.bytes, *(depth * memory.element.bytes for depth in memory.depths))
    return 1 if any(span % size for span in spans) else size


def scalar_dtype(kind: ScalarType) -> np.dtype[np.generic]:
    """How numpy names a stored scalar."""
    return np.dtype(f"<{'i' if kind.signed else 'u'}{kind.bits // 8}")


Reader = Callable[[Frame, Value], Array]
"""positions -> scalars [*positions.shape, scalars of an element]; one int gives a view of the memory itself."""

Writer = Callable[[Frame, Value, Bytes], None]
"""(positions, uint8 [*positions.shape, bytes of an element]); of equal positions the last one stays."""

Scatter = Callable[[Frame, Value, Value, Array], None]
"""(positions of elements, bytes inside them, scalars), all of one shape; of equal places the last one stays."""


class Storage:
    """The memories of a machine, each as one run of bytes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def words(self, view: View) -> ArrayLayout:
        """One scalar for each position of a view whose element is one word."""
        step = step_of(self.machine.memory[view.memory], view)
        return ArrayLayout(view.memory, scalar_dtype(view.element.scalar), step)

    def reader(self, view: View, dtype: np.dtype[np.generic]) -> Reader:
        """A function that reads elements."""
        memory, size = self.machine.memory[view.memory], view.element.bytes
        step, name = step_of(memory, view), view.memory
        if step == size:
            rows = ArrayLayout(name, dtype, step, size // dtype.itemsize)
            return lambda f, at: f.session.arrays[rows][at] if is_int(at) else f.session.arrays[rows].take(at, axis=0)
        items = ArrayLayout(name, np.dtype(f"V{size}"), step)
        turn = _turning(memory, size) if memory.kind == "ring" else None

        def read(f: Frame, at: Value) -> Array:
            flat = f.session.arrays.flat[name]
            if turn is not None and (table := turn(at)) is not None:
                return flat[table].view(dtype)
            if is_int(at):
                return flat[at : at + size].view(dtype)
            return f.session.arrays[items][at].reshape((*at.shape, 1)).view(dtype)

        return read

    def writer(self, view: View) -> Writer:
        """A function that writes elements."""
        write = self._writer(view)
        return self._telling(view.memory, write) if self.machine.memory[view.memory].control else write

    def _writer(self, view: View) -> Writer:
        memory, size = self.machine.memory[view.memory], view.element.bytes
        step, name = step_of(memory, view), view.memory
        items = ArrayLayout(name, np.dtype(f"V{size}"), step)
        turn = _turning(memory, size) if memory.kind == "ring" and step != size else None

        def write(f: Frame, at: Value, data: Bytes) -> None:
            if turn is not None and (table := turn(at)) is not None:
                flat = f.session.arrays.flat[name]
                for where, row in zip(table.reshape(-1, size), data.reshape(-1, size), strict=True):
                    flat[where] = row
            elif is_int(at):
                f.session.arrays.flat[name][at * step : at * step + size] = data
            else:
                held = f.session.arrays[items]
                held[at] = np.ascontiguousarray(data).view(held.dtype).reshape(at.shape)

        return write

    def scatter(self, view: View) -> Scatter:
        """A function that writes some scalars of elements."""
        memory, size = self.machine.memory[view.memory], view.element.bytes
        step, name, control = step_of(memory, view), view.memory, memory.control
        turn = _turning(memory, size) if memory.kind == "ring" and step != size else None

        def scatter(f: Frame, at: Value, inside: Value, values: Array) -> None:
            start, width = np.asarray(at) * step, values.dtype.itemsize
            places = np.asarray(inside)[..., None] + np.arange(width)
            table = turn(start) if turn else None
            places = start[..., None] + places if table is None else np.take_along_axis(table, places, -1)
            f.session.arrays.flat[name][places.reshape(-1)] = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
            if control:
                f.session.versions.changed(name)

        return scatter

    def _telling(self, name: str, write: Writer) -> Writer:
        """A control memory's contents have changed: remembered results do not hold."""

        def telling(f: Frame, at: Value, data: Bytes) -> None:
            write(f, at, data)
            f.session.versions.changed(name)

        return telling


def _turning(memory: Memory, size: int) -> Callable[[Value], Value]:
    """Byte positions -> the bytes of each element where one of them turns round the end of its ring, else None."""
    starts = np.cumsum([0, *memory.depths[:-1]]) * memory.element.bytes
    sizes = np.array(memory.depths) * memory.element.bytes

    def table(at: Value) -> Value:
        inner = np.asarray(at) % memory.bytes
        bank = np.searchsorted(starts, inner, side="right") - 1
        offset, ring = inner - starts[bank], sizes[bank]
        if (offset + size <= ring).all():
            return None
        base = np.asarray(at) - offset
        return base[..., None] + (offset[..., None] + np.arange(size)) % ring[..., None]

    return table


Rows = Array
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
        return in_range(f, at, extent, lambda lane: f.fault("E0701", f"lane {lane} is outside '{self.access.view.name}', which has {extent}"))

    def spread(self, f: Frame, rows: Rows) -> Value:
        """Rows as data."""
        at = self.positions(f)
        if at.ndim == len(self.axes.lanes) and rows.ndim == 1:
            return rows[at]
        loops = np.broadcast_shapes(rows.shape[:-1] or (1,) * self.axes.loops, at.shape[: at.ndim - len(self.axes.lanes)] or (1,) * self.axes.loops)
        lanes = at.shape[at.ndim - len(self.axes.lanes) :]
        count = math.prod(loops)
        flat = np.broadcast_to(rows, (*loops, rows.shape[-1])).reshape(count, -1)
        chosen = np.broadcast_to(at, loops + lanes).reshape(count, -1)
        return np.take_along_axis(flat, chosen, 1).reshape(loops + lanes)
