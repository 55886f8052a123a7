"""The elements of each operand that a part of the result needs, derived from the index expression: stride, kernel, dilation, padding, halo."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.operations.kind import OperationKind
from toolchain.operations.reads import read_all
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
    for read in (e for e in walk(kind.meaning.of or Const(0)) if isinstance(e, Index)):
        assert isinstance(read.base, Name)
        reach = [(int(index.min()), int(index.max())) for index in (scope.value(place, {}) for place in read.index)]
        known = found.setdefault(read.base.id, reach)
        found[read.base.id] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, reach, strict=True)]
    if kind.bias:
        found[kind.bias] = [(part[index].start, part[index].stop - 1) if index in part else (0, numbers[extent] - 1) for index, extent in _axes(kind)]
    return {
        name: tuple(_cut(low, high, numbers[e]) for (low, high), e in zip(ends, _extents(kind, name), strict=True)) for name, ends in found.items()
    }


def _axes(kind: OperationKind) -> list[tuple[str, str]]:
    return list(kind.operand[kind.bias].axes.items())


def _extents(kind: OperationKind, name: str) -> tuple[str, ...]:
    return kind.operand[name].extents


def _cut(low: int, high: int, extent: int) -> Needed:
    """The part of a range of positions that lies inside."""
    first, stop = min(max(low, 0), extent), max(min(high + 1, extent), 0)
    return Needed(first, max(stop, first), max(-low, 0), max(high + 1 - extent, 0))
