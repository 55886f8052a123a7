"""Tensors to and from DRAM through the machine's layouts, and where each one stands there.

Where places go on regularly along every axis, a tensor in storage is a few grids: numpy copies them by strides, and no element needs an index.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from toolchain.spec.arrays import Array, Ints, evaluate_arrays
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Layout, Machine

MOST_GRIDS = 64
"""The most grids of a tensor; where it takes more, an index is as good."""
MOST_AXES = 32
"""The most axes of a grid; numpy has no arrays of many more."""


@dataclass(frozen=True)
class Piece:
    """Indices of an axis from `first` on. start: how far the first one moves an element in storage, in scalars. levels: how many steps there
    are, and how far each goes; the outermost first, as the digits of the index in a mixed radix."""

    first: int
    start: int
    levels: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        return math.prod(count for count, _ in self.levels)


@dataclass(frozen=True)
class Grid:
    """A box of a tensor: a piece of every axis."""

    pieces: tuple[Piece, ...]

    def of_host(self, values: Array) -> Array:
        """A view of the box in the host tensor, an axis for each level."""
        box = values[tuple(slice(piece.first, piece.first + piece.size) for piece in self.pieces)]
        return box.reshape([count for count, _ in self._levels])  # axes are only split, which never copies

    def of_stored(self, stored: Array) -> Array:
        """The view of the box in the stored array, which is contiguous and has every place that the grid was found in."""
        flat = stored.reshape(-1)[sum(piece.start for piece in self.pieces) :]
        return as_strided(flat, [count for count, _ in self._levels], [step * flat.itemsize for _, step in self._levels])

    @property
    def _levels(self) -> list[tuple[int, int]]:
        return [level for piece in self.pieces for level in piece.levels]


def find_grids(index: Sequence[Ints], shape: Sequence[int]) -> tuple[Grid, ...] | None:
    """Boxes that make up the tensor whose elements have these places (Packing's). None where the layout is not regular enough, or where a place
    is outside `shape`."""
    if any(part.min() < 0 or part.max() >= size for part, size in zip(index, shape, strict=True)):
        return None
    places = [part * math.prod(shape[axis + 1 :]) for axis, part in enumerate(index)]
    along = [sum((_line(place, axis) for place in places), np.zeros(1, np.int64)) for axis in range(index[0].ndim)]
    if not _adds_up(places):
        return None
    along[0] = along[0] + sum(int(place.flat[0]) for place in places)
    pieces = [list(itertools.islice(cut_axis(part), MOST_GRIDS + 1)) for part in along]
    found = tuple(map(Grid, itertools.product(*pieces))) if math.prod(map(len, pieces)) <= MOST_GRIDS else ()
    return found if found and all(sum(len(piece.levels) for piece in grid.pieces) <= MOST_AXES for grid in found) else None


def _line(place: Ints, axis: int) -> Ints:
    """How far the indices along one axis move the first element."""
    return place[tuple(slice(None) if k == axis else 0 for k in range(place.ndim))] - place.flat[0]


def _adds_up(places: Sequence[Ints]) -> bool:
    """Whether the moves along all axes together are the sum of those along each; those that depend on one axis alone are."""
    mixed = [place for place in places if sum(size > 1 for size in place.shape) > 1]
    if not mixed:
        return True
    whole = sum(mixed[1:], mixed[0])
    lines = [_line(whole, axis).reshape([-1 if k == axis else 1 for k in range(whole.ndim)]) for axis in range(whole.ndim)]
    return np.array_equal(whole, sum(lines, whole.flat[0]))


def cut_axis(offsets: Ints) -> Iterator[Piece]:
    """The offsets of an axis's indices, int64 [n], as pieces that go on regularly."""
    first = 0
    while first < len(offsets):
        piece = Piece(first, int(offsets[first]), tuple(_levels(offsets[first:]))[::-1])
        yield piece
        first += piece.size


def _levels(offsets: Ints) -> Iterator[tuple[int, int]]:
    """From the innermost outwards: how often the part found so far comes again at the same distance."""
    size, count = 1, 0
    while size < len(offsets) and count != 1:
        blocks = offsets[: len(offsets) // size * size].reshape(-1, size)
        step = int(offsets[size] - offsets[0])
        again = blocks == blocks[0] + np.arange(len(blocks)).reshape(-1, 1) * step
        count = int(np.argmin([*again.all(axis=1), False]))
        if count > 1:
            yield count, step
        size *= count


NATIVE = {"f16": "<f2", "f32": "<f4"}
"""Floating formats that numpy has; others are stored as integers of their bits."""
PAGE = 4096
"""Tensors start on a page, none on the first: address 0 means nothing on real machines."""


@dataclass(frozen=True)
class Packing:
    """How a tensor is stored. extents: the host's shape. shape: of the stored array of scalars. places: for each copy of a host element and each axis
    of that array, where every element stands, as arrays that broadcast to `extents`. start: bytes by which a part begins after the whole.
    brain: whether elements are bf16, which the host holds in float32."""

    layout: Layout
    dtype: np.dtype[np.generic]
    extents: tuple[int, ...]
    shape: tuple[int, ...]
    places: tuple[tuple[Ints, ...], ...]
    start: int = 0
    brain: bool = False

    @property
    def index(self) -> tuple[Ints, ...]:
        """For each axis of the stored array the place, or the first one, of every host element."""
        return self.places[0]

    def store(self, values: Array) -> bytes:
        """The stored bytes of a host tensor; elements without a source are zero. Raises ValueError for another shape or a value that does not fit."""
        stored = np.zeros(self.bytes, np.uint8)
        self.insert(stored, values)
        return stored.tobytes()

    def insert(self, data: NDArray[np.uint8], values: Array) -> None:
        """Writes a host tensor into stored bytes; those of others stay. Raises ValueError as `store` does."""
        narrow, stored = self._narrow(values), data.view(self.dtype).reshape(self.shape)
        for index, grids in zip(self.places, self._grids, strict=True):
            if grids is None:
                stored[index] = narrow
            for grid in grids or ():
                grid.of_stored(stored)[...] = grid.of_host(narrow)

    def _narrow(self, values: Array) -> Array:
        """The values in the stored type."""
        if values.shape != self.extents:
            raise ValueError(f"the tensor is {values.shape}, not {self.extents}")
        if self.brain and values.dtype == np.float32:
            bits = values.view(np.uint32)
            if (bits & 0xFFFF).any():
                raise ValueError("the tensor has values that bf16 does not hold")
            return (bits >> 16).astype(self.dtype)
        narrow = values.astype(self.dtype, copy=False)
        if narrow is not values and not np.array_equal(narrow, values, equal_nan=narrow.dtype.kind == "f"):
            raise ValueError(f"the tensor has values that {self.dtype} does not hold")
        return narrow

    def fetch(self, data: bytes | Array) -> Array:
        """The host tensor of stored bytes; of bf16 float32."""
        stored = np.frombuffer(data, self.dtype).reshape(self.shape)
        grids = self._grids[0]
        if grids is None:
            return self._wide(stored[self.index])
        found = np.empty(self.extents, self.dtype)
        for grid in grids:
            grid.of_host(found)[...] = grid.of_stored(stored)
        return self._wide(found)

    def _wide(self, found: Array) -> Array:
        return (found.astype(np.uint32) << 16).view(np.float32) if self.brain else found

    @cached_property
    def _grids(self) -> tuple[tuple[Grid, ...] | None, ...]:
        return tuple(find_grids(index, self.shape) for index in self.places)

    def part(self, axis: int, first: int, count: int) -> "Packing":
        """The packing of a range of an axis of the host's shape: where these elements stand in the same stored array."""
        if (first, count) == (0, self.extents[axis]):
            return self
        key = axis, first, count
        if key not in self._parts:
            cut = tuple(slice(first, first + count) if k == axis else slice(None) for k in range(len(self.extents)))
            places = tuple(tuple(part[cut] if part.shape[axis] > 1 else part for part in index) for index in self.places)
            start = self.start + self._first_byte(places[0]) - self._first_byte(self.index)
            extents = (*self.extents[:axis], count, *self.extents[axis + 1 :])
            self._parts[key] = replace(self, extents=extents, places=places, start=start)
        return self._parts[key]

    def _first_byte(self, index: tuple[Ints, ...]) -> int:
        return int(np.ravel_multi_index([part.flat[0] for part in index], self.shape)) * self.dtype.itemsize

    @cached_property
    def _parts(self) -> dict[tuple[int, int, int], "Packing"]:
        return {}

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def view_packing(machine: Machine, view: str, layout: str, extents: tuple[int, ...]) -> Packing:
    """The packing of a tensor with these extents, through a layout, in the scalars that it declares, else in those of a view."""
    found = next(item for item in machine.layouts if item.name == layout)
    scalar = found.type or machine.view[view].element.scalar
    brain = str(scalar) == "bf16"
    kind = "<u2" if brain else NATIVE.get(str(scalar)) or f"<{'i' if scalar.signed else 'u'}{scalar.bits // 8}"
    return _packing(found, kind, extents, brain)


@lru_cache(maxsize=256)
def _packing(layout: Layout, dtype: str, extents: tuple[int, ...], brain: bool) -> Packing:
    sizes = dict(zip(layout.extents, extents, strict=True))
    shape = tuple(constant(e, sizes) for e in layout.shape)
    opened = (open_names(layout, extents, {**sizes, **chosen}) for chosen in layout.chosen())
    places = tuple(tuple(evaluate_arrays(e, names) for e in layout.map) for names in opened)
    return Packing(layout, np.dtype(dtype), extents, shape, places, brain=brain)


def open_names(layout: Layout, extents: tuple[int, ...], numbers: Mapping[str, int]) -> dict[str, Ints]:
    """Numbers and index names as arrays with as many axes as the tensor, each index along its own: their products are never stored.

    A number comes first, so that constants take its shape.
    """
    single = (1,) * len(extents)
    rank = len(extents)
    names = {"": np.zeros(single, np.int64)} | {name: np.array(value, np.int64, ndmin=rank) for name, value in numbers.items()}
    for axis, (name, size) in enumerate(zip(layout.domain, extents, strict=True)):
        names[name] = np.arange(size, dtype=np.int64).reshape(*single[:axis], size, *single[axis + 1 :])
    return names
