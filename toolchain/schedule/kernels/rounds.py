"""The rounds of a ring of rows that begins again at its end: where they overlap, rows at the end of one begin the next one too."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Rounds:
    """rows: of one round. step: from the first row of a round to the first of the next one; as many rows, or fewer. late: rows that the first round
    has room for before row 0."""

    rows: int
    step: int
    late: int = 0

    def read(self, rows: range) -> int:
        """The round in which a slab reads these rows: the first one that goes on to the last of them."""
        return max(-(-(rows.stop + self.late - self.rows) // self.step), 0)

    def made(self, rows: range) -> range:
        """The rounds in which a slab makes these rows: all that have any of them."""
        return range(max((rows.start + self.late - self.rows) // self.step + 1, 0), (rows.stop + self.late - 1) // self.step + 1)

    def holds(self, number: int, rows: range) -> bool:
        """Whether a round has all of these rows, so that a step reaches them at once."""
        first = number * self.step - self.late
        return not rows or (first <= rows.start and rows.stop <= first + self.rows)


class RowRing(NamedTuple):
    """A ring of rows. pitch: elements from one line to the next. depth: elements of each bank that it takes, one after the other: those of its whole
    pool, which must wrap, or from its slot on those of `lines` lines, after which it begins again.

    overlap: how many of these, the last ones of each round, are the first ones of the next round as well, and made in both places. late: the line in
    which the tensor begins, so that rounds end where slabs do.
    """

    pitch: int
    depth: int
    lines: int = 0
    overlap: int = 0
    late: int = 0

    def rounds(self, together: int) -> Rounds | None:
        """together: rows of a line. None for a ring that goes round its pool."""
        step = self.lines - self.overlap
        return Rounds(self.lines * together, step * together, self.late * together) if self.lines else None

    def begin(self, number: int) -> int:
        """Elements from the slot to the place where the first line of all would stand if the ring were whole, as a round has it."""
        return (self.late - number * (self.lines - self.overlap)) * self.pitch
