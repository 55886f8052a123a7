"""The part of a tensor that a tile of its reader needs, in the units of the operation that makes it: derived from the index expression."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from toolchain.operations.operation import PICTURE_AXES
from toolchain.operations.reads import positions
from toolchain.schedule.kernels.kernel_reader import PICTURE
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import layout_of
from toolchain.schedule.regions.views import block_of
from toolchain.spec.arrays import Ints


@dataclass(frozen=True)
class Reach:
    """dimension: of the reader. first, stop: int64 [its extent], units of the maker's dimension that each of its units reads."""

    dimension: str
    first: Ints
    stop: Ints

    def part(self, first: int, size: int) -> tuple[int, int]:
        """First unit and units of the maker for a tile of the reader."""
        here = slice(first, first + size)
        start = int(self.first[here].min())
        return start, int(self.stop[here].max()) - start

    def largest(self, size: int) -> int:
        """The most units of the maker that a tile of so many needs."""
        starts = np.arange(0, len(self.first), size)
        return int((np.maximum.reduceat(self.stop, starts) - np.minimum.reduceat(self.first, starts)).max())

    def covers(self, extent: int) -> bool:
        """Whether every unit of the maker is read."""
        joined = (self.first[1:] <= self.stop[:-1]).all() and (self.stop > self.first).all()
        return bool(joined) and (int(self.first[0]), int(self.stop[-1])) == (0, extent)


Reaches = Mapping[str, Reach]
"""By dimension of the maker."""


def units_of(problem: Problem) -> dict[int, tuple[str, int]] | None:
    """By axis of the result as a picture, the dimension that cuts it and the elements of a unit: a block of the layout in which the result is stored.

    None for a kernel that does not say which dimensions cut the axes, or has others.
    """
    kernel = problem.kernel
    if {d.name for d in kernel.loops} != set(kernel.axes.values()):
        return None
    layout = layout_of(problem.machine, next(t for t in kernel.tensors if t.name == "y"))
    found = {PICTURE.index(axis): (name, block_of(layout, axis)) for axis, name in kernel.axes.items()}
    whole = all(-(-problem.operation.output[axis] // unit) == problem.extents[name] for axis, (name, unit) in found.items())
    return found if whole else None


def find_reaches(maker: Problem, reader: Problem, operand: str) -> dict[str, Reach] | None:
    """None where tiles of the reader do not need whole units of the maker, all of them together."""
    found = dict(touched(maker, reader, operand))
    exact = found and all(whole and reach.covers(maker.extents[name]) for name, (reach, whole) in found.items())
    return {name: reach for name, (reach, _) in found.items()} if exact else None


def touched(maker: Problem, reader: Problem, operand: str) -> Iterator[tuple[str, tuple[Reach, bool]]]:
    """By dimension of the maker, the units that the reader touches, and whether it begins with whole ones; none where kernels do not say."""
    made, read = units_of(maker), units_of(reader)
    if made is None or read is None or made.keys() != read.keys():
        return
    for axis, (name, unit) in made.items():
        dimension, own = read[axis]
        first, stop = _reach(reader, operand, axis, own)
        yield name, (Reach(dimension, first // unit, -(-stop // unit)), not (first % unit).any())


def _reach(reader: Problem, operand: str, axis: int, unit: int) -> tuple[Ints, Ints]:
    """Elements of the operand along an axis, from the first one and before the last, for each unit of the reader."""
    kind = reader.operation.kind
    result, data = (PICTURE_AXES[len(axes)] for axes in (kind.result.axes, kind.operand[operand].axes))
    found = positions(kind, reader.operation.numbers, list(kind.result.axes)[result.index(axis)])[operand][data.index(axis)]
    starts = np.arange(0, len(found.first), unit)
    return np.minimum.reduceat(found.first, starts), np.maximum.reduceat(found.stop, starts)
