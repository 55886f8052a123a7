"""Reads of operands over all loops at once: strided views where an index moves evenly, gathered elements elsewhere."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.spec.arrays import evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr, Index, Name

Ints = np.typing.NDArray[np.int64]


@dataclass(frozen=True)
class Elements:
    """An operand's elements along every loop, of extent 1 along those that do not matter."""

    array: Ints

    def where(self, condition: Ints) -> "Elements":
        """Zero where a condition does not hold."""
        return Elements(np.where(condition != 0, self.array, 0))


@dataclass(frozen=True)
class Read:
    """names: numbers, and each loop's index along its own axis. outside: what a read past an edge gives; not open: no such read may happen."""

    arrays: Mapping[str, Ints]
    names: Mapping[str, Ints]
    outside: int
    open: bool

    def value(self, expr: Expr, more: Mapping[str, Ints]) -> Ints:
        """An expression of numbers, indices and `more`."""
        return evaluate_arrays(expr, {**self.names, **more})

    def read(self, read: Index) -> Elements:
        """Raises UserError E1301 for a read past an edge where the operation says of none."""
        assert isinstance(read.base, Name)
        array = self.arrays[read.base.id]
        index = [narrow(self.value(part, {})) for part in read.index]
        before = [max(0, -int(part.min())) for part in index]
        after = [max(0, int(part.max()) - size + 1) for part, size in zip(index, array.shape, strict=True)]
        if any(before) or any(after):
            if not self.open:
                raise fail("E1301", f"'{read.base.id}' is read outside its extents {array.shape}, and the meaning has no 'outside'", read.span)
            array = np.pad(array, list(zip(before, after, strict=True)), constant_values=self.outside)
        moved = [part + start for part, start in zip(index, before, strict=True)]
        view = _view(array, moved)
        return Elements(array[tuple(np.broadcast_arrays(*moved))] if view is None else view)


def read_all(arrays: Mapping[str, Ints], numbers: Mapping[str, int], loops: Mapping[str, range], outside: int, unbounded: bool) -> Read:
    """Reads over loops, of which each is an axis."""
    single = (1,) * max(len(loops), 1)
    names: dict[str, Ints] = {"": np.zeros(single, np.int64)} | {name: np.full(single, value, np.int64) for name, value in numbers.items()}
    for axis, (name, loop) in enumerate(loops.items()):
        names[name] = np.arange(loop.start, loop.stop, dtype=np.int64).reshape([-1 if k == axis else 1 for k in range(len(single))])
    return Read(arrays, names, outside, unbounded)


def narrow(index: Ints) -> Ints:
    """An index with extent 1 along every axis that does not change it."""
    for axis, size in enumerate(index.shape):
        if size > 1 and (index == index.take([0], axis)).all():
            index = index.take([0], axis)
    return index


def _view(array: Ints, index: Sequence[Ints]) -> Ints | None:
    """A strided view; None where an index does not move evenly along a loop."""
    shape, strides = list[int](), list[int]()
    steps: list[Mapping[int, int]] = []
    for part in index:
        found = _steps(part)
        if found is None:
            return None
        steps.append(found)
    for axis in range(index[0].ndim if index else 0):
        size = max(part.shape[axis] for part in index)
        stride = sum(found.get(axis, 0) * array.strides[k] for k, found in enumerate(steps))
        shape.append(size)
        strides.append(stride)
    start = tuple(int(part.flat[0]) for part in index)
    lowest = [int(part.min()) for part in index]
    if any(s != low for s, low in zip(start, lowest, strict=True)):
        return None  # an index that falls along a loop
    origin: Any = array[tuple(slice(s, None) for s in start)]
    return np.lib.stride_tricks.as_strided(origin, shape, strides, writeable=False)


def _steps(index: Ints) -> Mapping[int, int] | None:
    """By axis, how far the index moves at each step; None where it does not move evenly."""
    found: dict[int, int] = {}
    lines: list[Ints] = [np.full((1,) * index.ndim, index.flat[0], np.int64)]
    for axis, size in enumerate(index.shape):
        if size > 1:
            found[axis] = int(index.take([1], axis).flat[0] - index.flat[0])
            lines.append(np.arange(size, dtype=np.int64).reshape([-1 if k == axis else 1 for k in range(index.ndim)]) * found[axis])
    even = functools.reduce(np.add, lines)
    return found if np.array_equal(np.broadcast_to(even, index.shape), index) else None
