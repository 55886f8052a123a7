"""The elements of operands that an index expression reads.

Over all loops at once: strided views where an index moves evenly, gathered elements elsewhere. By the positions of an axis of the result: the
positions of each operand that they need, which stride, kernel, dilation, padding and halo follow from.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from toolchain.operations.kind import OperationKind
from toolchain.spec.arrays import Array, Ints, evaluate_arrays
from toolchain.spec.errors import fail
from toolchain.spec.expr import Const, Expr, Index, Name, rewrite, walk

Place = Mapping[str, int]
"""One value for each reduced index."""


@dataclass(frozen=True)
class Elements:
    """An operand's elements along every loop, of extent 1 along those that do not matter."""

    array: Ints

    def where(self, condition: Ints) -> "Elements":
        """Zero where a condition does not hold."""
        return Elements(np.where(condition != 0, self.array, 0))


@dataclass(frozen=True)
class Read:
    """names: numbers, and each loop's index along its own axis. outside: the value of a read past an edge. open: whether such reads may happen."""

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

    def opened(self, expr: Expr) -> tuple[Expr, dict[str, Array]]:
        """The expression with a name in place of every element that it reads, and the elements by these names. Raises as `read`."""
        found: dict[str, Array] = {}

        def change(e: Expr) -> Expr | None:
            if isinstance(e, Index) and isinstance(e.base, Name) and e.base.id in self.arrays:
                key = f"[{len(found)}]"
                found[key] = self.read(e).array
                return Name(key)
            return None

        return rewrite(expr, change), found


def elements_of(loops: Mapping[str, range]) -> int:
    """How many elements something has that every loop is an axis of."""
    return math.prod(map(len, loops.values()))


def in_parts(
    loops: Mapping[str, range], axes: Sequence[str], fits: Callable[[Mapping[str, range]], bool], whole: Callable[[Mapping[str, range]], Array]
) -> Array:
    """`whole` over loops, cut along the longest of the result's axes until each part `fits`, and joined again."""
    longest = max(axes, key=lambda index: len(loops[index]), default="")
    if not longest or len(loops[longest]) == 1 or fits(loops):
        return whole(loops)
    loop, half = loops[longest], len(loops[longest]) // 2
    parts = [in_parts({**loops, longest: part}, axes, fits, whole) for part in (loop[:half], loop[half:])]
    return np.concatenate(parts, axes.index(longest))


def read_all(
    arrays: Mapping[str, Ints], numbers: Mapping[str, int], loops: Mapping[str, range], outside: int, unbounded: bool, terms: Sequence[Place] = ()
) -> Read:
    """Reads over loops, of which each is an axis. terms: places of several terms, which are the first axis then."""
    first = int(bool(terms))
    single = (1,) * max(first + len(loops), 1)
    names: dict[str, Ints] = {"": np.zeros(single, np.int64)} | {name: np.full(single, value, np.int64) for name, value in numbers.items()}
    for name in terms[0] if terms else ():
        names[name] = np.array([place[name] for place in terms], np.int64).reshape(-1, *single[1:])
    for axis, (name, loop) in enumerate(loops.items(), first):
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
    origin: Ints = array[tuple(slice(s, None) for s in start)]
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


class Positions(NamedTuple):
    """int64 [extent of an axis of the result]: the first position of an operand's axis that each of its positions reads, and the one behind the last;
    inside the operand."""

    first: Ints
    stop: Ints


def positions(kind: OperationKind, numbers: Mapping[str, int], index: str) -> dict[str, tuple[Positions, ...]]:
    """By operand, for each of its axes: the positions that each position of one axis of the result reads, over all positions of the other axes."""
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


def _extents(kind: OperationKind, name: str) -> tuple[str, ...]:
    return kind.operand[name].extents
