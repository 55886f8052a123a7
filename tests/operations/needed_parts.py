"""The range of each operand that a part of a result needs, found for that part alone: a second opinion on `toolchain.operations.reads.positions`, and
on the windows of kernels."""

from collections.abc import Iterator, Mapping
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
    loops = {index: part.get(index, range(numbers[extent])) for index, extent in {**kind.result.axes, **kind.meaning.over}.items()}
    scope = read_all({}, numbers, loops, 0, unbounded=True)
    found: dict[str, list[tuple[int, int]]] = {}
    for operand, read in _reads(kind):
        reach = [(int(index.min()), int(index.max())) for index in (scope.value(place, {}) for place in read.index)]
        known = found.setdefault(operand, reach)
        found[operand] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, reach, strict=True)]
    if kind.bias:
        axes = kind.operand[kind.bias].axes.items()
        found[kind.bias] = [(part[index].start, part[index].stop - 1) if index in part else (0, numbers[extent] - 1) for index, extent in axes]
    extents = {name: [numbers[extent] for extent in kind.operand[name].extents] for name in found}
    return {name: tuple(_cut(*reach, extent) for reach, extent in zip(ends, extents[name], strict=True)) for name, ends in found.items()}


def _reads(kind: OperationKind) -> Iterator[tuple[str, Index]]:
    """Every read of an operand in the meaning."""
    for read in (e for e in walk(kind.meaning.of or Const(0)) if isinstance(e, Index)):
        assert isinstance(read.base, Name)
        yield read.base.id, read


def _cut(low: int, high: int, extent: int) -> Needed:
    """The part of a range of positions that lies inside."""
    first, stop = min(max(low, 0), extent), max(min(high + 1, extent), 0)
    return Needed(first, max(stop, first), max(-low, 0), max(high + 1 - extent, 0))
