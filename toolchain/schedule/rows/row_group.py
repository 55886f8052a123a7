"""A group of operations over one loop of rows: whether it can be, the order of its slabs, every slab as late as its readers allow, and whether
the rings of rows are long enough."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Residents
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_loop import Loadable, RowLoad, RowLoop
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


class Turn(NamedTuple):
    """A slab of a member. after: by place, members and those of their slabs that must be done before its contents are read. slots: by place,
    where a ring that begins again stands for its rows."""

    member: int
    slab: int
    after: Mapping[str, Sequence["tuple[int, int]"]]
    slots: Mapping[str, Slot] = MappingProxyType({})


@dataclass(frozen=True)
class Feed:
    """A place of a member whose tensor another member of the group makes."""

    place: str
    maker: int


@dataclass
class _Interleaver:
    loops: Sequence[RowLoop | RowLoad]
    feeds: Sequence[Sequence[Feed]]
    ahead: int
    done: list[int] = field(default_factory=list[int])

    def turns(self) -> Iterator[Turn]:
        """All slabs. Members that no other one reads take turns, the one that lags behind first; in the end come rows that none of them reads."""
        self.done = [0] * len(self.loops)
        fed = {feed.maker for feeds in self.feeds for feed in feeds}
        ends = [member for member in range(len(self.loops)) if member not in fed]
        while behind := [member for member in ends if self.done[member] < self.loops[member].count]:
            member = min(behind, key=lambda m: (self.done[m] / self.loops[m].count, m))
            yield from self._run(member, self.done[member])
        for member, loop in enumerate(self.loops):
            yield from self._run(member, loop.count - 1)

    def _run(self, member: int, slab: int) -> Iterator[Turn]:
        """The member up to a slab, each after the slabs that it reads."""
        while self.done[member] <= slab:
            now = self.done[member]
            for feed in self.feeds[member]:
                later = min(now + self.ahead, self.loops[member].count - 1)
                yield from self._run(feed.maker, self._maker_slab(member, later, feed))
            yield Turn(member, now, self._after(member, now))
            self.done[member] = now + 1

    def _after(self, member: int, slab: int) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for feed in self.feeds[member]:
            found.setdefault(feed.place, []).append((feed.maker, self._maker_slab(member, slab, feed)))
        return found

    def _maker_slab(self, member: int, slab: int, feed: Feed) -> int:
        """The last slab of the maker that the first slabs of a member read; -1 for none."""
        stop = max(self.loops[member].read(k)[feed.place].stop for k in (slab, max(slab - 1, 0)))
        return self.loops[feed.maker].slab_of(stop - 1) if stop else -1


def interleave(loops: Sequence[RowLoop | RowLoad], feeds: Sequence[Sequence[Feed]], ahead: int) -> list[Turn]:
    """loops, feeds: of each member, operations before their readers, loads last. ahead: slabs of a reader for which its makers work in advance."""
    return list(_Interleaver(loops, feeds, ahead).turns())


@dataclass(frozen=True)
class RowGroup:
    """operations: of the region, by number. loops, tensors: of each of them, the latter by place: the buffers. ahead: as in a schedule. loads: of
    rings that no operation makes."""

    operations: range
    loops: Sequence[RowLoop]
    tensors: Sequence[Mapping[str, str]]
    ahead: int
    loads: Sequence[RowLoad] = ()

    @cached_property
    def makers(self) -> list[RowLoop | RowLoad]:
        """Makers of slabs: operations, then loads."""
        return [*self.loops, *self.loads]

    @cached_property
    def names(self) -> list[Mapping[str, str]]:
        """By place, the buffers that each maker of slabs touches; of a load, the ring that it fills."""
        return [*self.tensors, *({load.place: load.ring} for load in self.loads)]

    @cached_property
    def made(self) -> list[str]:
        """The buffer that each maker of slabs makes."""
        return [*(tensors["y"] for tensors in self.tensors), *(load.ring for load in self.loads)]

    @cached_property
    def passes(self) -> bool:
        """Whether one operation hands rows to another."""
        return any(feed.maker < len(self.loops) for member in range(len(self.loops)) for feed in self._feeds(member))

    @cached_property
    def chained(self) -> bool:
        """Whether every operation behind the first takes rows from another one."""
        return all(any(feed.maker < len(self.loops) for feed in self._feeds(member)) for member in range(1, len(self.loops)))

    @cached_property
    def turns(self) -> list[Turn]:
        """The slabs of all operations and loads, in the order in which they run."""
        feeds = [list(self._feeds(member)) for member in range(len(self.loops))]
        return interleave(self.makers, [*feeds, *([] for _ in self.loads)], self.ahead)

    def turns_with(self, problems: Sequence[Problem]) -> list[Turn]:
        """The turns with the slots of rings that begin again. problems: of the members, with the tensors on chip."""
        found: list[Turn] = []
        for turn in self.turns:
            maker = self.makers[turn.member]
            if isinstance(maker, RowLoad):
                slots = {maker.place: maker.slot(problems[maker.member].kept[maker.place], turn.slab)}
            else:
                kept = problems[turn.member].kept
                slots = {place: kept[place].slot_for(rows.start) for place, rows in maker.touched(turn.slab).items() if place in kept}
            found.append(turn._replace(slots=slots))
        return found

    def most_rows(self, tensor: str) -> int:
        """The most rows of a tensor that one slab makes or reads."""
        found = [0]
        for loop, tensors in zip(self.makers, self.names, strict=True):
            for slab in range(min(loop.count, 2)):
                found += [len(rows) for place, rows in loop.touched(slab).items() if tensors.get(place) == tensor]
        return max(found)

    def crossing(self, rings: Mapping[str, RingBuffer]) -> tuple[str, range] | None:
        """A ring, and rows of it that a slab makes or reads on both sides of its end."""
        for turn in self.turns:
            loop, tensors = self.makers[turn.member], self.names[turn.member]
            for place, rows in loop.touched(turn.slab).items():
                ring = rings.get(tensors.get(place, ""))
                if ring is not None and ring.crosses(rows):
                    return tensors[place], rows
        return None

    def _feeds(self, member: int) -> Iterator[Feed]:
        for place in self.loops[member].problem.operation.kind.data:
            for maker in (*range(member), *range(len(self.loops), len(self.makers))):
                if self.made[maker] == self.tensors[member].get(place):
                    yield Feed(place, maker)

    def clash(self, rings: Mapping[str, RingBuffer], over: frozenset[tuple[str, str]]) -> Clash | None:
        """Rows that are written where others stand that are still read. over: as `find_clash` has it."""
        writes, reads = list[Touch](), list[Touch]()
        for moment, turn in enumerate(self.turns):
            loop, tensors, made = self.makers[turn.member], self.names[turn.member], self.made[turn.member]
            writes += [Touch(made, moment, loop.made(turn.slab))] * (made in rings)
            reads += [Touch(tensors[place], moment, rows) for place, rows in loop.read(turn.slab).items() if tensors.get(place) in rings]
        return find_clash(rings, writes, reads, over)


def group_tensors(region: Region, storage: Storage, operations: range, loads: Iterable[Loadable] = ()) -> list[dict[str, str]]:
    """By operation and place, the buffers that its computed tensors stand in. loads: rings that are loaded."""
    found = [{place: storage.places[tensor][0] for place, tensor in region.operations[index].tensors.items()} for index in operations]
    for use, ring in ((use, load.candidate.name) for load in loads for use in load.candidate.reads):
        found[use.operation - operations[0]][use.place.name] = ring
    return found


def ring_buffers(residents: Residents, group: int) -> dict[str, RingBuffer]:
    """The rings of rows of a group."""
    found: dict[str, RingBuffer] = {}
    for name, ring in residents.rings.items():
        candidate, slot = residents.candidates[name], residents.slots[name]
        if candidate.first == group and candidate.lines is not None:
            lines = candidate.lines
            depth = slot.address + ring.depth if ring.lines else ring.depth
            found[name] = RingBuffer(candidate.memory, slot.bank, slot.address, ring.pitch, lines.line, lines.together, depth, ring.lines)
    return found


def made_over(residents: Residents, rings: Iterable[str]) -> frozenset[tuple[str, str]]:
    """(result, operand) of rings that stand in one place."""
    slots, known = residents.slots, residents.rings
    pairs = ((name, other) for name in rings for other in residents.candidates[name].over if other in known)
    return frozenset((name, other) for name, other in pairs if (slots[name], known[name]) == (slots[other], known[other]))
