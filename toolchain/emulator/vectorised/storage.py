"""The bytes of memories as arrays of elements, read and written at positions.

A position counts steps from the start of the first instance: whole elements where every address of a view is a
multiple of the element's size, else bytes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.state import State
from toolchain.emulator.vectorised.numerics import is_int
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


class Storage:
    """The memories of one state, each as one run of bytes."""

    def __init__(self, machine: Machine, state: State) -> None:
        self.machine = machine
        self.flat = {name: array.reshape(-1) for name, array in state.memories.items()}

    def words(self, view: View) -> NDArray[Any]:
        """One scalar for each position of a view whose element is one word."""
        step = step_of(self.machine.memory[view.memory], view)
        return self._items(view, scalar_dtype(view.element.scalar), step)

    def _items(self, view: View, dtype: np.dtype[Any], step: int) -> NDArray[Any]:
        flat = self.flat[view.memory]
        count = (flat.size - dtype.itemsize) // step + 1
        return np.ndarray((count,), dtype, flat.data, 0, (step,))

    def reader(self, view: View, dtype: np.dtype[Any]) -> Callable[[Value], NDArray[Any]]:
        """positions -> dtype [*positions.shape, items of an element]; one int gives a view of the memory itself."""
        memory, size = self.machine.memory[view.memory], view.element.bytes
        step, flat = step_of(memory, view), self.flat[view.memory]
        if step == size:
            rows = flat.view(dtype).reshape(-1, size // dtype.itemsize)
            return lambda at: rows[at] if is_int(at) else rows.take(at, axis=0)
        items = self._items(view, np.dtype(f"V{size}"), step)
        turn = _turning(memory, size) if memory.kind == "ring" else None

        def read(at: Value) -> NDArray[Any]:
            if turn is not None and (table := turn(at)) is not None:
                return flat[table].view(dtype)
            if is_int(at):
                return flat[at : at + size].view(dtype)
            return items[at].reshape((*at.shape, 1)).view(dtype)

        return read

    def writer(self, view: View) -> Callable[[Value, Bytes], None]:
        """(positions, uint8 [*positions.shape, bytes of an element]); of equal positions the last one stays."""
        memory, size = self.machine.memory[view.memory], view.element.bytes
        step, flat = step_of(memory, view), self.flat[view.memory]
        items = self._items(view, np.dtype(f"V{size}"), step)
        turn = _turning(memory, size) if memory.kind == "ring" and step != size else None

        def write(at: Value, data: Bytes) -> None:
            if turn is not None and (table := turn(at)) is not None:
                for where, row in zip(table.reshape(-1, size), data.reshape(-1, size), strict=True):
                    flat[where] = row
            elif is_int(at):
                flat[at * step : at * step + size] = data
            else:
                items[at] = np.ascontiguousarray(data).view(items.dtype).reshape(at.shape)

        return write

    def scatter(self, view: View) -> Callable[[Value, Value, NDArray[Any]], None]:
        """(positions of elements, bytes inside them, scalars), all of one shape; of equal places the last one stays."""
        memory, size = self.machine.memory[view.memory], view.element.bytes
        step, flat = step_of(memory, view), self.flat[view.memory]
        turn = _turning(memory, size) if memory.kind == "ring" and step != size else None

        def scatter(at: Value, inside: Value, values: NDArray[Any]) -> None:
            start, width = np.asarray(at) * step, values.dtype.itemsize
            places = np.asarray(inside)[..., None] + np.arange(width)
            table = turn(start) if turn else None
            places = start[..., None] + places if table is None else np.take_along_axis(table, places, -1)
            flat[places.reshape(-1)] = np.ascontiguousarray(values).view(np.uint8).reshape(-1)

        return scatter


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
