"""How long a ring of rows is whose rounds overlap: lines that slabs on both sides of its end read stand in two rounds, and are made in both."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from toolchain.schedule.rows.ring_check import RingBuffer
from toolchain.schedule.rows.row_group import RowGroup, Slab, clash_of


class Length(NamedTuple):
    """Lines. lines: of a round. overlap: those that the next one has as well. late: the first one of the first round."""

    lines: int
    overlap: int = 0
    late: int = 0


@dataclass(frozen=True)
class Flow:
    """The rows of a ring in a group. names: of the ring, and of those in its place: (result, operand) in `over`. together: rows of a line.
    most: lines for which there is room."""

    group: RowGroup
    names: Sequence[str]
    over: frozenset[tuple[str, str]]
    together: int
    most: int
    _known: dict[Length, bool] = field(default_factory=dict[Length, bool])
    _found: dict[int, Length | None] = field(default_factory=dict[int, Length | None])

    def length(self, rounds: int) -> Length | None:
        """For so many rounds at most, with as little overlap as slabs need; the shortest ring where they need none, and all lines of the tensor where
        no shorter ring would do. None where there is no room."""
        if self._live > self.most:
            return None
        least = self._step(rounds)
        if least not in self._found:
            self._found[least] = self._plain or next(filter(self._is_right, self._overlapping(least)), self._all)
        return self._found[least]

    def bound(self, rounds: int) -> int:
        """Lines that such a ring has at least, without a search."""
        return self._live if self._ends else max(self._live, min(self._step(rounds), self._whole))

    def _step(self, rounds: int) -> int:
        """Lines of whole slabs from the beginning of one round to that of the next, at least."""
        return _aligned(-(-self._whole // rounds), self._slab)

    @cached_property
    def _all(self) -> Length | None:
        """All lines of the tensor; None where there is no room."""
        return Length(self._whole) if self._whole <= self.most else None

    @cached_property
    def _plain(self) -> Length | None:
        """The shortest ring without overlap; None where there is none."""
        if not self._ends:
            return None
        tried = (Length(lines, 0, late) for lines in range(self._live, self._longest) for late in range(0, min(self._window, lines), self._slab))
        return next(filter(self._is_right, tried), None)

    def _overlapping(self, least: int) -> Iterator[Length]:
        """least: lines of whole slabs from the beginning of one round to that of the next."""
        slab = self._slab
        for step in range(least, self._longest, slab):
            for overlap in range(slab, min(_aligned(self._window - 1, slab), step) + 1, slab):
                if self._live <= step + overlap < self._longest:
                    yield from (Length(step + overlap, overlap, late) for late in range(0, min(self._window, step), slab))

    def _is_right(self, length: Length) -> bool:
        """Whether every slab lies in one round, and no line is made over another one that is still read."""
        if length not in self._known:
            ring = RingBuffer("", 0, 0, 1, 1, self.together, length.lines, *length)
            crosses = any(ring.crosses(rows, made=True) for rows in self._made) or any(map(ring.crosses, self._read))
            self._known[length] = not crosses and clash_of(self._slabs, dict.fromkeys(self.names, ring), self.over) is None
        return self._known[length]

    @cached_property
    def _slabs(self) -> list[Slab]:
        """Slabs that touch the ring."""
        return [slab for slab in self.group.slabs if any(tensor in self.names for tensor, _, _ in slab.touched)]

    @cached_property
    def _longest(self) -> int:
        """A bound: lines that are too many."""
        return min(self._whole, self.most + 1)

    @cached_property
    def _whole(self) -> int:
        return max(-(-rows.stop // self.together) for rows in self._made)

    @cached_property
    def _slab(self) -> int:
        return max(map(self._lines, self._made))

    @cached_property
    def _window(self) -> int:
        return max(map(self._lines, self._read), default=1)

    @cached_property
    def _ends(self) -> frozenset[int]:
        """Lines before which a round could end without overlap."""
        inside = {line for rows in self._read for line in range(rows.start // self.together + 1, -(-rows.stop // self.together))}
        return frozenset(range(1, self._whole)) - inside

    @cached_property
    def _made(self) -> list[range]:
        return [slab.made for slab in self._slabs if slab.own in self.names]

    @cached_property
    def _read(self) -> list[range]:
        return [rows for slab in self._slabs for rows in self._reads(slab)]

    @cached_property
    def _live(self) -> int:
        """Lines between the first that is still read and the last that is there, at most."""
        end = self._whole * self.together
        made = itertools.accumulate((slab.made.stop if slab.own in self.names else 0 for slab in self._slabs), max)
        first = [min((rows.start for rows in self._reads(slab)), default=end) for slab in self._slabs]
        still = list(itertools.accumulate(reversed(first), min))[::-1]
        return max(-(-stop // self.together) - min(row, stop) // self.together for stop, row in zip(made, still, strict=True))

    def _reads(self, slab: Slab) -> list[range]:
        return [rows for tensor, rows in slab.read if tensor in self.names and rows]

    def _lines(self, rows: range) -> int:
        return -(-rows.stop // self.together) - rows.start // self.together


def _aligned(lines: int, slab: int) -> int:
    return -(-lines // slab) * slab


def flow_of(group: RowGroup, name: str, over: Mapping[str, str], together: int, most: int) -> Flow:
    """over: of rings in the place of another, by their names, the operand before the result. together, most: as a Flow has them."""
    names = [name]
    for other, under in over.items():
        names += [other] * (under in names)
    return Flow(group, names, frozenset((other, under) for other, under in over.items() if other in names), together, most)


def lengths_of(flows: Sequence[Flow], lines: Sequence[int], room: int, rounds: Iterable[int]) -> Iterator[list[Length]]:
    """Lengths of the rings of a group, the same ones only once, where one of them needs an overlap. lines: elements of a line of each ring. room:
    elements for all of them. rounds: the most of each, to be tried in turn."""
    seen: list[list[Length]] = []
    for most in rounds:
        bound = sum(flow.bound(most) * line for flow, line in zip(flows, lines, strict=True))
        found = _lengths(flows, most) if bound <= room else []
        if found not in seen and any(length.overlap for length in found):
            seen.append(found)
            yield found


def _lengths(flows: Sequence[Flow], rounds: int) -> list[Length]:
    """Lengths of all rings; empty where one finds no room."""
    found: list[Length] = []
    for flow in flows:
        length = flow.length(rounds)
        if length is None:
            return []
        found.append(length)
    return found
