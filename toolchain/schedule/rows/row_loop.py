"""The rows that a slab of an operation makes, and the rows of each operand that it reads: derived from the operation's index expression."""

from dataclasses import dataclass
from functools import cached_property

from toolchain.operations.operation import PICTURE_AXES
from toolchain.operations.reads import needed
from toolchain.schedule.kernels.problem import Problem

HEIGHT = 2
"""The axis of a picture [batch, channels, height, width] that counts rows."""


@dataclass(frozen=True)
class RowLoop:
    """The outermost loop of an operation: slabs of `size` units of the dimension that counts rows. A unit is one row of the result or several."""

    problem: Problem
    dimension: str
    size: int

    @cached_property
    def count(self) -> int:
        """Slabs."""
        return -(-self.problem.extents[self.dimension] // self.size)

    @cached_property
    def height(self) -> int:
        """Rows of the whole result."""
        return self.problem.operation.output[HEIGHT]

    def made(self, slab: int) -> range:
        """The rows of the result that a slab makes."""
        return range(slab * self._rows, min((slab + 1) * self._rows, self.height))

    @cached_property
    def _rows(self) -> int:
        """Rows of a full slab."""
        return self.size * -(-self.height // self.problem.extents[self.dimension])

    def read(self, slab: int) -> dict[str, range]:
        """By computed operand, the rows that a slab reads."""
        if slab not in self._read:
            self._read[slab] = self._needed(self.made(slab))
        return self._read[slab]

    @cached_property
    def _read(self) -> dict[int, dict[str, range]]:
        return {}

    def _needed(self, rows: range) -> dict[str, range]:
        kind, operation = self.problem.operation.kind, self.problem.operation
        axes = list(kind.result.axes)
        found = needed(kind, operation.numbers, {axes[PICTURE_AXES[len(axes)].index(HEIGHT)]: rows})
        whole = {name: range(operation.input(name)[HEIGHT]) for name in kind.data}
        parts = {name: found[name] for name in whole if HEIGHT in PICTURE_AXES.get(len(found.get(name, ())), ())}
        heights = {name: part[PICTURE_AXES[len(part)].index(HEIGHT)] for name, part in parts.items()}
        return whole | {name: range(part.first, part.stop) for name, part in heights.items()}

    def touched(self, slab: int) -> dict[str, range]:
        """By place, the rows of all computed tensors that a slab reads or makes."""
        return {**self.read(slab), "y": self.made(slab)}

    def slab_of(self, row: int) -> int:
        """The slab that makes a row of the result."""
        return row // max(len(self.made(0)), 1)


def row_dimension(problem: Problem) -> str | None:
    """The dimension of the tile that counts rows of the result, one by one or so many at a time, as the kernel says for tensors that may be rings.

    None where it says nothing, or the result has no such rows.
    """
    axes = len(problem.operation.kind.result.axes)
    named = {place.whole.rows.of for place in problem.kernel.places if place.whole and place.whole.rows}
    if len(named) != 1 or HEIGHT not in PICTURE_AXES.get(axes, ()):
        return None
    name = named.pop()
    return name if problem.operation.output[HEIGHT] % problem.extents[name] == 0 else None
