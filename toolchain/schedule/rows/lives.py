"""Whether rings of rows are long enough: no line of rows is written where another one stands that is still read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toolchain.spec.arrays import Ints


class Touch(NamedTuple):
    """Rows of a ring that are written or read at a moment."""

    ring: str
    moment: int
    rows: range


@dataclass(frozen=True)
class RingBuffer:
    """together: rows of a line. address: of the first line. line: elements of a line; pitch: from one to the next. depth: where the memory wraps.
    lines: after how many it begins again; 0 for one that goes round the memory."""

    memory: str
    bank: int
    address: int
    pitch: int
    line: int
    together: int
    depth: int
    lines: int = 0

    def crosses(self, rows: range) -> bool:
        """Whether rows that one slab touches stand on both sides of the end of the ring, where no step can reach them at once."""
        around = self.lines * self.together
        return bool(around and rows) and rows.start // around != (rows.stop - 1) // around


class Clash(NamedTuple):
    """The line of `ring` that begins with `row` stands where that of `other` still is read."""

    ring: str
    row: int
    other: str
    other_row: int


@dataclass(frozen=True)
class _Lines:
    """int64 [n] of lines. first: the moment at which one is written. last: at which it is read for the last time."""

    number: Ints
    start: Ints
    first: Ints
    last: Ints


def find_clash(rings: Mapping[str, RingBuffer], writes: Sequence[Touch], reads: Sequence[Touch], over: frozenset[tuple[str, str]]) -> Clash | None:
    """over: (result, operand): rings that stand in one place, where an operation writes each element after it has read it."""
    lines = {name: _lines(ring, [t for t in writes if t.ring == name], [t for t in reads if t.ring == name]) for name, ring in rings.items()}
    for name, ring in rings.items():
        for other, other_ring in rings.items():
            if (ring.memory, ring.bank) == (other_ring.memory, other_ring.bank):
                found = _clash(ring, lines[name], other_ring, lines[other], name == other, (name, other) in over)
                if found is not None:
                    return Clash(name, found[0] * ring.together, other, found[1] * other_ring.together)
    return None


def _lines(ring: RingBuffer, writes: Sequence[Touch], reads: Sequence[Touch]) -> _Lines:
    count = max(-(-t.rows.stop // ring.together) for t in writes)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    for touch in writes:
        part = _part(ring, touch.rows)
        first[part] = np.minimum(first[part], touch.moment)
        last[part] = np.maximum(last[part], touch.moment)
    for touch in reads:
        part = _part(ring, touch.rows)
        last[part] = np.maximum(last[part], touch.moment)
    number = np.arange(count)
    turn = number % ring.lines if ring.lines else number
    return _Lines(number, (ring.address + turn * ring.pitch) % ring.depth, first, last)


def _part(ring: RingBuffer, rows: range) -> slice:
    return slice(rows.start // ring.together, -(-rows.stop // ring.together))


def _clash(ring: RingBuffer, one: _Lines, other_ring: RingBuffer, two: _Lines, same: bool, over: bool) -> tuple[int, int] | None:
    """The first line that is written while a line of the other ring, written before, is still needed."""
    apart = (two.start[None, :] - one.start[:, None]) % ring.depth
    meets = (apart < ring.line) | ((ring.depth - apart) % ring.depth < other_ring.line)
    late = one.first[:, None]
    lives = (two.first[None, :] <= late) & (late <= two.last[None, :])
    if over:
        lives &= (late < two.last[None, :]) | (apart != 0)
    if same:
        lives &= one.number[:, None] != two.number[None, :]
    wrong = np.argwhere(meets & lives)
    return (int(wrong[0][0]), int(wrong[0][1])) if len(wrong) else None
