"""Whether the rings of a group are long enough: no row is written where another one stands that is still read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from toolchain.schedule.kernels.rounds import Rounds, RowRing
from toolchain.schedule.placement.on_chip_allocation import Residents
from toolchain.spec.arrays import Ints


class Touch(NamedTuple):
    """Rows of a ring that are written or read at a moment. number: of the round in which they stand, where the ring begins again."""

    ring: str
    moment: int
    rows: range
    number: int = 0


@dataclass(frozen=True)
class RingBuffer:
    """together: rows of a line. address: of the first line. line: elements of a line; pitch: from one to the next. depth: where the memory wraps.
    lines: after how many it begins again; 0 for one that goes round the memory. overlap: how many of them stand in the next round as well. late: in
    which of them the tensor begins."""

    memory: str
    bank: int
    address: int
    pitch: int
    line: int
    together: int
    depth: int
    lines: int = 0
    overlap: int = 0
    late: int = 0

    @cached_property
    def rounds(self) -> Rounds | None:
        """None for a ring that goes round the memory."""
        return RowRing(self.pitch, self.depth, self.lines, self.overlap, self.late).rounds(self.together)

    def read(self, rows: range) -> int:
        """The round in which a slab reads these rows."""
        return self.rounds.read(rows) if self.rounds else 0

    def made(self, rows: range) -> range:
        """The rounds in which a slab makes these rows."""
        return self.rounds.made(rows) if self.rounds else range(1)

    def crosses(self, rows: range, made: bool = False) -> bool:
        """Whether rows that one slab reads or makes stand on both sides of the end of a round, where no step can reach them at once."""
        numbers = self.made(rows) if made else (self.read(rows),)
        return self.rounds is not None and not all(self.rounds.holds(number, rows) for number in numbers)


class Clash(NamedTuple):
    """The line of `ring` that begins with `row` stands where that of `other` still is read."""

    ring: str
    row: int
    other: str
    other_row: int


@dataclass(frozen=True)
class _Lines:
    """int64 [n] of lines, round after round. number: of the whole tensor. first: the moment at which one is written. last: at which it is read for
    the last time."""

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
    count = max(_part(ring, t).stop for t in writes)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    for touch in writes:
        part = _part(ring, touch)
        first[part] = np.minimum(first[part], touch.moment)
        last[part] = np.maximum(last[part], touch.moment)
    for touch in reads:
        part = _part(ring, touch)
        last[part] = np.maximum(last[part], touch.moment)
    index: Ints = np.arange(count, dtype=np.int64)
    turn = index % ring.lines if ring.lines else index
    number = index - (index // ring.lines * ring.overlap if ring.lines else 0) - ring.late
    return _Lines(number, (ring.address + turn * ring.pitch) % ring.depth, first, last)


def _part(ring: RingBuffer, touch: Touch) -> slice:
    """The lines among those of all rounds, each of which has the lines of the overlap anew."""
    more = touch.number * ring.overlap + ring.late
    return slice(touch.rows.start // ring.together + more, -(-touch.rows.stop // ring.together) + more)


def _clash(ring: RingBuffer, one: _Lines, other_ring: RingBuffer, two: _Lines, same: bool, over: bool) -> tuple[int, int] | None:
    """The first line that is written while a line of the other ring, written before, is still needed."""
    apart = (two.start[None, :] - one.start[:, None]) % ring.depth
    meets = (apart < ring.line) | ((ring.depth - apart) % ring.depth < other_ring.line)
    late = one.first[:, None]
    lives = (two.first[None, :] <= late) & (late <= two.last[None, :])
    if over:
        lives &= (late < two.last[None, :]) | (apart != 0)
    if same:
        np.fill_diagonal(lives, False)
    wrong = np.argwhere(meets & lives)
    return (int(one.number[wrong[0][0]]), int(two.number[wrong[0][1]])) if len(wrong) else None


def ring_buffers(residents: Residents, group: int) -> dict[str, RingBuffer]:
    """The rings of rows of a group."""
    found: dict[str, RingBuffer] = {}
    for name, ring in residents.rings.items():
        candidate, slot = residents.candidates[name], residents.slots[name]
        if candidate.first == group and candidate.lines is not None:
            lines = candidate.lines
            depth = _depth(residents, candidate.memory, slot.bank)
            where = candidate.memory, slot.bank, slot.address, ring.pitch, lines.line, lines.together, depth
            found[name] = RingBuffer(*where, ring.lines, ring.overlap, ring.late)
    return found


def _depth(residents: Residents, memory: str, bank: int) -> int:
    """The end of a pool's addresses: the same for all its rings, so that their places can be compared."""
    return next(pool.start + pool.depth for pool in residents.pools[memory] if pool.bank == bank)


def made_over(residents: Residents, rings: Iterable[str]) -> frozenset[tuple[str, str]]:
    """(result, operand) of rings that stand in one place."""
    slots, known = residents.slots, residents.rings
    pairs = ((name, other) for name in rings for other in residents.candidates[name].over if other in known)
    return frozenset((name, other) for name, other in pairs if (slots[name], known[name]) == (slots[other], known[other]))
