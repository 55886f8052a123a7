"""Tensors in storage as grids: where places go on regularly along every axis, numpy copies by strides, and no element needs an index."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from toolchain.spec.arrays import Ints

Array = NDArray[Any]
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
    """From the innermost outwards: how often what was found so far comes again at the same distance."""
    size, count = 1, 0
    while size < len(offsets) and count != 1:
        blocks = offsets[: len(offsets) // size * size].reshape(-1, size)
        step = int(offsets[size] - offsets[0])
        again = blocks == blocks[0] + np.arange(len(blocks)).reshape(-1, 1) * step
        count = int(np.argmin([*again.all(axis=1), False]))
        if count > 1:
            yield count, step
        size *= count
