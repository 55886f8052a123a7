"""The elements of each operand that a part of the result needs, derived from the index expression: stride, kernel, dilation, padding, halo."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from toolchain.operations.kind import OperationKind
from toolchain.operations.reads import read_all
from toolchain.spec.arrays import Ints
from toolchain.spec.expr import Const, Index, Name, walk


@dataclass(frozen=True)
class Needed:
    """Elements of an axis from `first` to before `stop`, and how many positions before and after them lie outside the operand."""

    first: int
    stop: int
    before: int
    after: int

    @property
    def count(self) -> int:
        return self.stop - self.first


def needed(kind: OperationKind, numbers: Mapping[str, int], part: Mapping[str, range]) -> dict[str, tuple[Needed, ...]]:
    """By operand, a range for each of its axes; of an operand that stands for many, nothing.

    numbers: all of the operation's. part: ranges of the result's axes by index name, the whole axis for one that is left out.
    """
    extents = {**kind.result.axes, **kind.meaning.over}
    loops = {index: part.get(index, range(numbers[extent])) for index, extent in extents.items()}
    scope = read_all({}, numbers, loops, 0, unbounded=True)
    found: dict[str, list[tuple[int, int]]] = {}
    for operand, read in _reads(kind):
        reach = [(int(index.min()), int(index.max())) for index in (scope.value(place, {}) for place in read.index)]
        known = found.setdefault(operand, reach)
        found[operand] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, reach, strict=True)]
    if kind.bias:
        found[kind.bias] = [(part[index].start, part[index].stop - 1) if index in part else (0, numbers[extent] - 1) for index, extent in _axes(kind)]
    return {
        name: tuple(_cut(low, high, numbers[e]) for (low, high), e in zip(ends, _extents(kind, name), strict=True)) for name, ends in found.items()
    }


class Positions(NamedTuple):
    """int64 [extent of an axis of the result]: the first position of an operand's axis that each of its positions reads, and the one behind the last;
    inside the operand."""

    first: Ints
    stop: Ints


def positions(kind: OperationKind, numbers: Mapping[str, int], index: str) -> dict[str, tuple[Positions, ...]]:
    """By operand, for each of its axes, what each position of one axis of the result reads, wherever the other axes are."""
    return dict(_positions(kind, tuple(numbers.items()), index))


@lru_cache(maxsize=1024)
def _positions(kind: OperationKind, given: tuple[tuple[str, int], ...], index: str) -> Mapping[str, tuple[Positions, ...]]:
    """Kinds are compared by identity. A search asks for the same operations in every plan."""
    numbers = dict(given)
    loops = {name: range(numbers[extent]) for name, extent in {**kind.result.axes, **kind.meaning.over}.items()}
    scope, axis = read_all({}, numbers, loops, 0, unbounded=True), list(loops).index(index)
    found: dict[str, tuple[Positions, ...]] = {}
    for operand, read in _reads(kind):
        own = tuple(
            _each(scope.value(place, {}), axis, len(loops[index]), numbers[e]) for place, e in zip(read.index, _extents(kind, operand), strict=True)
        )
        known = found.setdefault(operand, own)
        found[operand] = tuple(Positions(np.minimum(a.first, b.first), np.maximum(a.stop, b.stop)) for a, b in zip(known, own, strict=True))
    return found


def _each(places: Ints, axis: int, count: int, extent: int) -> Positions:
    """places: along every loop, or of extent 1 along those that do not matter."""
    rows = np.moveaxis(places, axis, 0).reshape(places.shape[axis], -1)
    first, stop = np.clip(rows.min(axis=1), 0, extent), np.clip(rows.max(axis=1) + 1, 0, extent)
    return Positions(np.broadcast_to(first, (count,)), np.broadcast_to(stop, (count,)))


def _reads(kind: OperationKind) -> Iterator[tuple[str, Index]]:
    """Every read of an operand in the meaning."""
    for read in (e for e in walk(kind.meaning.of or Const(0)) if isinstance(e, Index)):
        assert isinstance(read.base, Name)
        yield read.base.id, read


def _axes(kind: OperationKind) -> list[tuple[str, str]]:
    return list(kind.operand[kind.bias].axes.items())


def _extents(kind: OperationKind, name: str) -> tuple[str, ...]:
    return kind.operand[name].extents


def _cut(low: int, high: int, extent: int) -> Needed:
    """The part of a range of positions that lies inside."""
    first, stop = min(max(low, 0), extent), max(min(high + 1, extent), 0)
    return Needed(first, max(stop, first), max(-low, 0), max(high + 1 - extent, 0))
