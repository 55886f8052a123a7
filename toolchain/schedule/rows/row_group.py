"""A group of operations over one loop of rows: the order of its slabs, every slab as late as its readers allow, and the places of their rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import networkx as nx

from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.kernels.rounds import Rounds
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.ring_check import Clash, RingBuffer, Touch, find_clash
from toolchain.schedule.rows.row_loop import Loadable, RowLoad, RowLoop


class Turn(NamedTuple):
    """A slab of a member. after: by place, members and those of their slabs that must be done before its contents are read. slots: by place,
    where a ring that begins again stands for its rows. again: the slab has been made before, in the round that ends with it."""

    member: int
    slab: int
    after: Mapping[str, Sequence["tuple[int, int]"]]
    slots: Mapping[str, Slot] = MappingProxyType({})
    again: bool = False


class Slab(NamedTuple):
    """A turn and the rows that it makes of its own tensor, and reads of others."""

    turn: Turn
    own: str
    made: range
    read: Sequence[tuple[str, range]]

    @property
    def touched(self) -> Iterator[tuple[str, range, bool]]:
        """Tensors, their rows, and whether the turn makes them."""
        yield from ((tensor, rows, False) for tensor, rows in self.read)
        yield self.own, self.made, True


def runs(slabs: Iterable[Slab], rounds: Mapping[str, Rounds]) -> Iterator[tuple[Slab, int]]:
    """The slabs with the numbers of the rounds in which they make rows. The rows of a round that stand in the next one as well are made again just
    before the first of that round's own. rounds: of tensors that are rings which begin again."""
    begun, ends = dict[int, int](), dict[int, list[Slab]]()
    for slab in slabs:
        member = slab.turn.member
        numbers = rounds[slab.own].made(slab.made) if slab.own in rounds else range(1)
        if numbers.start > begun.get(member, 0):
            yield from ((other._replace(turn=other.turn._replace(again=True)), numbers.start) for other in ends.pop(member, ()))
            begun[member] = numbers.start
        yield slab, numbers.start
        if len(numbers) > 1:
            ends.setdefault(member, []).append(slab)


def clash_of(slabs: Iterable[Slab], rings: Mapping[str, RingBuffer], over: frozenset[tuple[str, str]]) -> Clash | None:
    """Rows that are written where others stand that are still read, when slabs follow one another. over: as `find_clash` has it."""
    writes, reads = list[Touch](), list[Touch]()
    rounds = {name: ring.rounds for name, ring in rings.items() if ring.rounds}
    for moment, (slab, number) in enumerate(runs(slabs, rounds)):
        if slab.own in rings:
            writes.append(Touch(slab.own, moment, slab.made, number))
        for tensor, rows in slab.read:
            if tensor in rings:
                reads.append(Touch(tensor, moment, rows, number if (slab.own, tensor) in over else rings[tensor].read(rows)))
    return find_clash(rings, writes, reads, over)


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
    def connected(self) -> bool:
        """Whether every operation hands rows to another one or takes some from one, and they are not several groups."""
        members = range(len(self.loops))
        graph = nx.Graph([(member, feed.maker) for member in members for feed in self._feeds(member) if feed.maker in members])
        graph.add_nodes_from(members)
        return nx.is_connected(graph)

    @cached_property
    def turns(self) -> list[Turn]:
        """The slabs of all operations and loads, in the order in which they run."""
        feeds = [list(self._feeds(member)) for member in range(len(self.loops))]
        return interleave(self.makers, [*feeds, *([] for _ in self.loads)], self.ahead)

    def turns_with(self, problems: Sequence[Problem]) -> list[Turn]:
        """The turns with the slots of rings that begin again, one turn for each round in which a slab is made. problems: of the members, with the
        tensors on chip."""
        places = enumerate(map(self._place, range(len(self.makers))))
        kept = {self.made[number]: problems[member].kept[place] for number, (member, place) in places if place in problems[member].kept}
        rounds = {own: each.rounds for own, each in kept.items() if each.rounds}
        return [self._placed(slab.turn, number, problems) for slab, number in runs(self.slabs, rounds)]

    def _place(self, maker: int) -> tuple[int, str]:
        """The member and the place whose tensor a maker makes."""
        load = self.makers[maker]
        return (load.member, load.place) if isinstance(load, RowLoad) else (maker, "y")

    def _placed(self, turn: Turn, number: int, problems: Sequence[Problem]) -> Turn:
        """An operand in whose place the result stands is read in the round in which that is made."""
        maker, (member, place) = self.makers[turn.member], self._place(turn.member)
        kept = problems[member].kept
        if isinstance(maker, RowLoad):
            return turn._replace(slots={place: maker.slot(kept[place], turn.slab, number)})
        made, read = kept.get(place), {name: rows for name, rows in maker.read(turn.slab).items() if name in kept}
        slots = {name: kept[name].slot_in(number) if kept[name].stands_with(made) else kept[name].slot_for(rows) for name, rows in read.items()}
        return turn._replace(slots={**slots, place: made.slot_in(number)} if made else slots)

    def times_made(self, problems: Sequence[Problem]) -> list[float]:
        """By maker, the turns of a slab on average: more than one where rounds of its ring overlap. problems: as `turns_with` has them."""
        counts = Counter(turn.member for turn in self.turns_with(problems))
        return [counts[number] / maker.count for number, maker in enumerate(self.makers)]

    def most_rows(self, tensor: str) -> int:
        """The most rows of a tensor that one slab makes or reads."""
        found = [0]
        for loop, tensors in zip(self.makers, self.names, strict=True):
            for slab in range(min(loop.count, 2)):
                found += [len(rows) for place, rows in loop.touched(slab).items() if tensors.get(place) == tensor]
        return max(found)

    @cached_property
    def slabs(self) -> list[Slab]:
        """The turns with the rows that they touch."""
        found: list[Slab] = []
        for turn in self.turns:
            maker, tensors = self.makers[turn.member], self.names[turn.member]
            read = tuple((tensors[place], rows) for place, rows in maker.read(turn.slab).items() if place in tensors)
            found.append(Slab(turn, self.made[turn.member], maker.made(turn.slab), read))
        return found

    def crossing(self, rings: Mapping[str, RingBuffer]) -> tuple[str, range] | None:
        """A ring, and rows of it that a slab makes or reads on both sides of its end."""
        touched = ((tensor, rows, made) for slab in self.slabs for tensor, rows, made in slab.touched)
        return next(((tensor, rows) for tensor, rows, made in touched if tensor in rings and rings[tensor].crosses(rows, made)), None)

    def _feeds(self, member: int) -> Iterator[Feed]:
        for place in self.loops[member].problem.operation.kind.data:
            for maker in (*range(member), *range(len(self.loops), len(self.makers))):
                if self.made[maker] == self.tensors[member].get(place):
                    yield Feed(place, maker)

    def clash(self, rings: Mapping[str, RingBuffer], over: frozenset[tuple[str, str]]) -> Clash | None:
        """Rows that are written where others stand that are still read. over: as `find_clash` has it."""
        return clash_of(self.slabs, rings, over)


def group_tensors(region: Region, storage: Storage, operations: range, loads: Iterable[Loadable] = ()) -> list[dict[str, str]]:
    """By operation and place, the buffers that its computed tensors stand in. loads: rings that are loaded."""
    found = [{place: storage.places[tensor][0] for place, tensor in region.operations[index].tensors.items()} for index in operations]
    for use, ring in ((use, load.candidate.name) for load in loads for use in load.candidate.reads):
        found[use.operation - operations[0]][use.place.name] = ring
    return found
