"""Tensors to and from DRAM through the machine's layouts, and where each one stands there."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.kernels.kernel import Tensor
from toolchain.schedule.placement.grids import Grid, find_grids
from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Choose, Expr, Index, Name, rewrite, walk
from toolchain.spec.model import Layout, Machine

PAGE = 4096
"""Tensors start on a page, none on the first: address 0 means nothing on real machines."""
Array = NDArray[Any]


@dataclass(frozen=True)
class Packing:
    """How a tensor is stored. extents: the host's shape. shape: of the stored array of scalars. index: for each axis of that array the
    place of every host element, as arrays that broadcast to `extents`."""

    layout: Layout
    dtype: np.dtype[Any]
    extents: tuple[int, ...]
    shape: tuple[int, ...]
    index: tuple[Ints, ...]

    def store(self, values: Array) -> bytes:
        """The stored bytes of a host tensor; what has no source is zero. Raises ValueError for another shape or a value that does not fit."""
        stored = np.zeros(self.bytes, np.uint8)
        self.insert(stored, values)
        return stored.tobytes()

    def insert(self, data: NDArray[np.uint8], values: Array) -> None:
        """Writes a host tensor into stored bytes; those of others stay. Raises ValueError as `store` does."""
        narrow, stored = self._narrow(values), data.view(self.dtype).reshape(self.shape)
        if self._grids is None:
            stored[self.index] = narrow
        for grid in self._grids or ():
            grid.of_stored(stored)[...] = grid.of_host(narrow)

    def _narrow(self, values: Array) -> Array:
        """The values in the stored type."""
        if values.shape != self.extents:
            raise ValueError(f"the tensor is {values.shape}, not {self.extents}")
        narrow = values.astype(self.dtype, copy=False)
        if narrow is not values and not np.array_equal(narrow, values):
            raise ValueError(f"the tensor has values that {self.dtype} does not hold")
        return narrow

    def fetch(self, data: bytes | Array) -> Array:
        """The host tensor of stored bytes."""
        stored = np.frombuffer(data, self.dtype).reshape(self.shape)
        if self._grids is None:
            return stored[self.index]
        found = np.empty(self.extents, self.dtype)
        for grid in self._grids:
            grid.of_host(found)[...] = grid.of_stored(stored)
        return found

    @cached_property
    def _grids(self) -> tuple[Grid, ...] | None:
        return find_grids(self.index, self.shape)

    def part(self, axis: int, first: int, count: int) -> "Packing":
        """The packing of a range of an axis of the host's shape: where these elements stand in the same stored array."""
        if (first, count) == (0, self.extents[axis]):
            return self
        key = axis, first, count
        if key not in self._parts:
            cut = tuple(slice(first, first + count) if k == axis else slice(None) for k in range(len(self.extents)))
            index = tuple(part[cut] if part.shape[axis] > 1 else part for part in self.index)
            self._parts[key] = Packing(self.layout, self.dtype, (*self.extents[:axis], count, *self.extents[axis + 1 :]), self.shape, index)
        return self._parts[key]

    @cached_property
    def _parts(self) -> dict[tuple[int, int, int], "Packing"]:
        return {}

    @property
    def start(self) -> int:
        """Bytes before the first host element."""
        return int(np.ravel_multi_index([part.flat[0] for part in self.index], self.shape)) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def packing(machine: Machine, tensor: Tensor, numbers: Mapping[str, int]) -> Packing:
    """Through the tensor's layout, in the scalars of its view."""
    return view_packing(machine, tensor.view, tensor.layout, tuple(constant(e, numbers) for e in tensor.extents))


def view_packing(machine: Machine, view: str, layout: str, extents: tuple[int, ...]) -> Packing:
    """The packing of a tensor with these extents, through a layout, in the scalars that it declares, else in those of a view."""
    found = next(item for item in machine.layouts if item.name == layout)
    scalar = found.type or machine.view[view].element.scalar
    return _packing(found, f"<{'i' if scalar.signed else 'u'}{scalar.bits // 8}", extents)


@lru_cache(maxsize=256)
def _packing(layout: Layout, dtype: str, extents: tuple[int, ...]) -> Packing:
    sizes = dict(zip(layout.extents, extents, strict=True))
    shape = tuple(constant(e, sizes) for e in layout.shape)
    names = _open_names(layout, extents, sizes)
    return Packing(layout, np.dtype(dtype), extents, shape, tuple(evaluate_arrays(e, names) for e in layout.map))


def _open_names(layout: Layout, extents: tuple[int, ...], numbers: Mapping[str, int]) -> dict[str, Ints]:
    """Numbers and index names as arrays with as many axes as the tensor, each index along its own: their products are never stored.

    A number comes first, so that constants take its shape.
    """
    single = (1,) * len(extents)
    names = {"": np.zeros(single, np.int64)} | {name: np.full(single, value, np.int64) for name, value in numbers.items()}
    for axis, (name, size) in enumerate(zip(layout.domain, extents, strict=True)):
        names[name] = np.arange(size, dtype=np.int64).reshape(*single[:axis], size, *single[axis + 1 :])
    return names


def tensor_values(machine: Machine, tensor: Tensor, numbers: Mapping[str, int], arrays: Mapping[str, Array]) -> Array:
    """The host tensor that `values` spells out; a plain element of an array keeps its type.

    Raises UserError E1002 for an array read past its end or with another number of indices.
    """
    assert tensor.values is not None
    layout = next(item for item in machine.layouts if item.name == tensor.layout)
    extents = tuple(constant(e, numbers) for e in tensor.extents)
    names = _open_names(layout, extents, numbers)
    for name, expr in tensor.let.items():
        names[name] = _values(expr, names, arrays)
    match _taken(tensor.values, names):
        case Index(base=Name(id=name)) as plain:
            found = _element(name, plain, names, arrays)
        case other:
            found = _values(other, names, arrays)
    return np.broadcast_to(found, extents)


def _taken(expr: Expr, names: Mapping[str, Ints]) -> Expr:
    """The branch of a choice that every element takes, where its condition does without the operation's arrays."""
    while isinstance(expr, Choose) and not any(isinstance(e, Index) for e in walk(expr.condition)):
        chosen = evaluate_arrays(expr.condition, names) != 0
        if chosen.any() and not chosen.all():
            break
        expr = expr.then if chosen.all() else expr.other
    return expr


def _values(expr: Expr, names: Mapping[str, Ints], arrays: Mapping[str, Array]) -> Ints:
    """An expression that may read the operation's arrays."""
    read: dict[str, Ints] = {}

    def change(e: Expr) -> Expr | None:
        if isinstance(e, Index) and isinstance(e.base, Name):
            key = f"[{len(read)}]"
            read[key] = _element(e.base.id, e, names, arrays).astype(np.int64)
            return Name(key)
        return None

    ready = rewrite(expr, change)
    return evaluate_arrays(ready, {**names, **read})


def _element(name: str, e: Index, names: Mapping[str, Ints], arrays: Mapping[str, Array]) -> Array:
    array, index = arrays[name], [evaluate_arrays(part, names) for part in e.index]
    if len(index) != array.ndim:
        raise fail("E1002", f"'{name}' has {array.ndim} indices, not {len(index)}", e.span)
    if any(part.min() < 0 or part.max() >= size for part, size in zip(index, array.shape, strict=True)):
        raise fail("E1002", f"this reads '{name}' outside its {array.shape} elements", e.span)
    return found if (found := box_of(array, index)) is not None else array[tuple(index)]


def box_of(array: Array, index: Sequence[Ints]) -> Array | None:
    """array[index] as a view, where every index runs along an axis of its own in steps of one; None elsewhere."""
    rank = max((part.ndim for part in index), default=0)
    runs: dict[int, int] = {}  # by axis of the array: that of the result
    parts: list[slice] = []
    for axis, part in enumerate(index):
        flat, long = part.reshape(-1), [rank - part.ndim + k for k, size in enumerate(part.shape) if size != 1]
        if not flat.size or len(long) > 1 or {*long} & {*runs.values()} or not np.array_equal(flat, range(int(flat[0]), int(flat[0]) + len(flat))):
            return None
        runs |= dict.fromkeys([axis] if long else [], long[0] if long else 0)
        parts.append(slice(int(flat[0]), int(flat[-1]) + 1))
    order = sorted(runs, key=runs.__getitem__)
    inner = array[tuple(parts)].transpose(*order, *(axis for axis in range(array.ndim) if axis not in runs))
    return np.expand_dims(inner.reshape(inner.shape[: len(order)]), tuple(k for k in range(rank) if k not in runs.values()))


@dataclass(frozen=True)
class Region:
    """Placement of a tensor: byte address, bytes, and the address in elements of its view."""

    address: int
    bytes: int
    base: int


def place_regions(machine: Machine, sizes: Mapping[str, tuple[str, int]]) -> dict[str, Region]:
    """Regions of name -> (view, bytes), one after the other. Raises UserError E1004 where the memory is too small."""
    return dict(_regions(machine, sizes))


def _regions(machine: Machine, sizes: Mapping[str, tuple[str, int]]) -> Iterator[tuple[str, Region]]:
    top: dict[str, int] = {}
    for name, (view_name, size) in sizes.items():
        view = machine.view[view_name]
        step = math.lcm(PAGE, max(view.unit, 1))
        address = -(-top.get(view.memory, PAGE) // step) * step
        top[view.memory] = address + size
        if top[view.memory] > machine.memory[view.memory].bytes:
            raise fail("E1004", f"tensor '{name}' of {size} bytes does not fit into '{view.memory}'")
        yield name, Region(address, size, address // max(view.unit, 1))
