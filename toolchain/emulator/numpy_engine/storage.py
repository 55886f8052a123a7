"""The bytes of memories as arrays of elements, read and written at positions.

A position counts steps from the start of the first instance: whole elements where every address of a view is a
multiple of the element's size, else bytes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.numpy_engine.frame import Frame
from toolchain.emulator.numpy_engine.numerics import is_int
from toolchain.emulator.numpy_engine.session import Layout
from toolchain.spec.model import Machine, Memory, ScalarType, View

Value = Any
Bytes = NDArray[np.uint8]


def step_of(memory: Memory, view: View) -> int:
    """Bytes of a step of a view's positions."""
    size = view.element.bytes
    spans = (view.unit or memory.element.bytes, memory.bytes, *(depth * memory.element.bytes for depth in memory.depths))
    return 1 if any(span % size for span in spans) else size


def scalar_dtype(kind: ScalarType) -> np.dtype[Any]:
    """How numpy names a stored scalar."""
    return np.dtype(f"<{'i' if kind.signed else 'u'}{kind.bits // 8}")


Reader = Callable[[Frame, Value], NDArray[Any]]
"""positions -> scalars [*positions.shape, scalars of an element]; one int gives a view of the memory itself."""

Writer = Callable[[Frame, Value, Bytes], None]
"""(positions, uint8 [*positions.shape, bytes of an element]); of equal positions the last one stays."""

Scatter = Callable[[Frame, Value, Value, NDArray[Any]], None]
"""(positions of elements, bytes inside them, scalars), all of one shape; of equal places the last one stays."""


class Storage:
    """The memories of a machine, each as one run of bytes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def words(self, view: View) -> Layout:
        """One scalar for each position of a view whose element is one word."""
        step = step_of(self.machine.memory[view.memory], view)
        return Layout(view.memory, scalar_dtype(view.element.scalar), step)

    def reader(self, view: View, dtype: np.dtype[Any]) -> Reader:
        """A function that reads elements."""
        memory, size = self.machine.memory[view.memory], view.element.bytes
        step, name = step_of(memory, view), view.memory
        if step == size:
            rows = Layout(name, dtype, step, size // dtype.itemsize)
            return lambda f, at: f.session.arrays[rows][at] if is_int(at) else f.session.arrays[rows].take(at, axis=0)
        items = Layout(name, np.dtype(f"V{size}"), step)
        turn = _turning(memory, size) if memory.kind == "ring" else None

        def read(f: Frame, at: Value) -> NDArray[Any]:
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
        items = Layout(name, np.dtype(f"V{size}"), step)
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

        def scatter(f: Frame, at: Value, inside: Value, values: NDArray[Any]) -> None:
            start, width = np.asarray(at) * step, values.dtype.itemsize
            places = np.asarray(inside)[..., None] + np.arange(width)
            table = turn(start) if turn else None
            places = start[..., None] + places if table is None else np.take_along_axis(table, places, -1)
            f.session.arrays.flat[name][places.reshape(-1)] = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
            if control:
                f.session.versions.changed(name)

        return scatter

    def _telling(self, name: str, write: Writer) -> Writer:
        """A control memory's contents have changed: what was remembered of them does not hold."""

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
