"""The tensors of a group that become rings of rows, and their layout: side by side in one pool, all going round it at one speed."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolchain.schedule.groups.overlap import flow_of, lengths_of
from toolchain.schedule.kernels.pools import Pool, Slot, wraps
from toolchain.schedule.kernels.rounds import RowRing
from toolchain.schedule.placement.on_chip_allocation import Candidate, Lines, Residents, find_room, group_numbers, grouped
from toolchain.schedule.rows.ring_check import made_over, ring_buffers
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.spec.model import Machine

MOST_RINGS = 16
"""The most rings of one group; with more, there are too many ways to share the pools."""
SLABS = (2, 3, 1)
"""Slabs in a ring that begins again at its end: one is made while another is read."""
ROUNDS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Rounds of rings that overlap, the fewest first: each but the first makes some lines again."""
Laid = dict[str, tuple[Slot, RowRing]]


class Stream(NamedTuple):
    """A tensor that goes by in rows. rows: all that it has. late: rows of the group's tallest ring that are made before its first one."""

    name: str
    lines: Lines
    rows: int
    late: int


@dataclass
class _Track:
    """Room for one line in every period. width: elements of it. taken: turns of `every` periods that streams have."""

    start: int
    width: int
    every: int
    taken: int


def lay_rings(streams: Sequence[Stream], pool: Pool, tallest: int) -> dict[str, tuple[Slot, RowRing]] | None:
    """Slots and rings, or None where lines are farther apart than the machine takes. tallest: rows of the tensor that `late` counts.

    A stream with half as many rows has a line in every second period. A stream that begins later starts further on, so that lines that are made at
    the same time stand beside each other. Whether rows are written over too early is not looked at.
    """
    most = max(stream.rows for stream in streams)
    tracks: list[_Track] = []
    places: list[tuple[_Track, int]] = []
    for stream in streams:
        every = max(most // stream.rows, 1)
        track = next((t for t in tracks if t.width >= stream.lines.line and t.every == every and t.taken < every), None)
        if track is None:
            track = _Track(sum(t.width for t in tracks), stream.lines.line, every, 0)
            tracks.append(track)
        places.append((track, track.taken))
        track.taken += 1
    period = sum(track.width for track in tracks)
    found: dict[str, tuple[Slot, RowRing]] = {}
    for stream, (track, turn) in zip(streams, places, strict=True):
        pitch = period * most // stream.rows
        if not stream.lines.line <= pitch <= stream.lines.most or period > pool.depth:
            return None
        begin = track.start + (turn + stream.late * most // tallest // stream.lines.together) * period
        found[stream.name] = Slot(pool.bank, begin % pool.depth), RowRing(pitch, pool.depth)
    return found


@dataclass(frozen=True)
class OnChip:
    """The tensors of a group on chip. whole: names of buffers that stand where they did. ringed: those that become rings, in the order in which they
    are made. kept: all of them, with the groups of `groups`. over: rings that stand in the place of another, by name."""

    whole: Sequence[str]
    ringed: Sequence[str]
    kept: Mapping[str, Candidate]
    groups: Sequence[int]
    over: Mapping[str, str]


@dataclass(frozen=True)
class RingPlaces:
    """candidates: all tensors that may stay on chip, by operations one by one. base: those that do so as a whole."""

    machine: Machine
    candidates: Mapping[str, Candidate]
    base: Residents

    def choices(self, members: range, loads: Sequence[Candidate] = ()) -> Iterator[OnChip]:
        """First with as much as before there as a whole, then with rings for all that only the members use. loads: rings that are loaded."""
        groups = group_numbers(len(self.base.groups), [members])
        inner = sorted((c for c in self.candidates.values() if self._is_inner(c, members)), key=lambda c: c.first)
        fresh = [c for c in inner if c.name not in self.base.candidates]
        for chosen in (fresh, inner) if len(fresh) < len(inner) else (fresh,):
            rings = {c.name: c for c in (*loads, *chosen)}
            ringed = list(rings)
            live = [c.name for c in self.base.candidates.values() if c.first <= members[-1] and members[0] <= c.last]
            whole = [name for name in live if name not in ringed]
            kept = grouped({**{name: self.base.candidates[name] for name in whole}, **rings}, groups, ringed)
            beside = Residents({name: self.base.slots[name] for name in whole}, kept, groups, self.base.pools)
            if 0 < len(ringed) <= MOST_RINGS and not any(beside.collisions()):
                over = {n: other for n in ringed for other in kept[n].over if other in ringed and kept[other].lines == kept[n].lines}
                yield OnChip(whole, ringed, kept, groups, over)

    def _is_inner(self, candidate: Candidate, members: range) -> bool:
        """Whether the members make it and one of them reads it; a tensor that others read on chip is no ring."""
        made = all(use.operation in members for use in candidate.writes)
        fits = candidate.lines is not None
        elsewhere = candidate.name in self.base.candidates and candidate.last not in members
        return made and fits and not elsewhere and any(use.operation in members for use in candidate.reads)

    def placed(self, chip: OnChip, group: RowGroup, again: bool) -> Iterator[Residents]:
        """Every way in which the rings can stand: going round pools that wrap and hold nothing else, in as few of them as possible first; then in
        stretches beside all else, at whose ends they begin again. again: in stretches at whose ends lines are made again, and no others. None for
        rings of several memories, which are not laid out together."""
        memory, *others = dict.fromkeys(chip.kept[name].memory for name in chip.ringed)
        if others:
            return
        streams = self._streams(chip, group)
        ways = self._made_again(chip, group, streams, memory) if again else self._made_once(chip, group, streams, memory)
        yield from (found for way in ways if way is not None and (found := self._residents(chip, group, way)) is not None)

    def _made_once(self, chip: OnChip, group: RowGroup, streams: Sequence[Stream], memory: str) -> Iterator[Laid | None]:
        taken = {self.base.slots[name].bank for name in chip.whole if chip.kept[name].memory == memory}
        free = [pool for pool in self.base.pools[memory] if pool.bank not in taken and wraps(self.machine.memory[memory], pool)]
        tallest = max(stream.rows for stream in streams)
        yield from (self._laid(parts, tallest) for parts in _splits(streams, free))
        yield from (self._beside(chip, memory, {stream.name: _turning(group, stream, slabs) for stream in streams}) for slabs in SLABS)

    def _made_again(self, chip: OnChip, group: RowGroup, streams: Sequence[Stream], memory: str) -> Iterator[Laid | None]:
        """With lines that are made again, the fewest times first, where slabs read some rows in common."""
        depths, lines = [pool.depth for pool in self.base.pools[memory]], [stream.lines.line for stream in streams]
        flows = [flow_of(group, stream.name, chip.over, stream.lines.together, max(depths) // stream.lines.line) for stream in streams]
        for lengths in lengths_of(flows, lines, sum(depths), ROUNDS):
            yield self._beside(chip, memory, {stream.name: _ring(stream, *length) for stream, length in zip(streams, lengths, strict=True)})

    def _residents(self, chip: OnChip, group: RowGroup, laid: Laid) -> Residents | None:
        """With these rings; None where rows meet, or cross the end of a ring."""
        slots = {name: self.base.slots[name] for name in chip.whole} | {name: slot for name, (slot, _) in laid.items()}
        rings = {name: ring for name, (_, ring) in laid.items()}
        for name, other in chip.over.items():
            slots[name], rings[name] = slots[other], rings[other]
        found = Residents(slots, chip.kept, chip.groups, self.base.pools, rings)
        buffers = ring_buffers(found, chip.groups[group.operations[0]])
        free = group.crossing(buffers) is None and group.clash(buffers, made_over(found, buffers)) is None
        return found if free else None

    def _laid(self, parts: Sequence[tuple[Pool, Sequence[Stream]]], tallest: int) -> Laid | None:
        """The rings in these pools; None where they do not fit."""
        found: Laid = {}
        for pool, streams in parts:
            laid = lay_rings(streams, pool, tallest)
            if laid is None:
                return None
            found |= laid
        return found

    def _beside(self, chip: OnChip, memory: str, rings: Mapping[str, RowRing]) -> Laid | None:
        """Rings that begin again, the lowest addresses first; None where there is no room."""
        others = [(self.base.slots[name], chip.kept[name].size) for name in chip.whole if chip.kept[name].memory == memory]
        found: Laid = {}
        for name, ring in rings.items():
            slot = find_room(ring.depth, others, self.base.pools[memory])
            if slot is None:
                return None
            found[name] = slot, ring
            others.append((slot, ring.depth))
        return found

    def _streams(self, chip: OnChip, group: RowGroup) -> list[Stream]:
        """Rings that stand in the place of another go with it."""
        made = {name: maker for maker, name in enumerate(group.made) if name in chip.ringed}
        rows = {name: group.makers[maker].height for name, maker in made.items()}
        tallest = max(chip.ringed, key=lambda name: rows[name])
        late, done = dict[int, int](), 0
        for turn in group.turns:
            late.setdefault(turn.member, done)
            if turn.member == made[tallest]:
                done = group.makers[turn.member].made(turn.slab).stop
        found: list[Stream] = []
        for name in chip.ringed:
            lines = chip.kept[name].lines
            if name not in chip.over and lines is not None:
                found.append(Stream(name, lines, rows[name], late[made[name]]))
        return found


def _turning(group: RowGroup, stream: Stream, slabs: int) -> RowRing:
    """A ring of so many slabs."""
    return _ring(stream, slabs * -(-group.most_rows(stream.name) // stream.lines.together))


def _ring(stream: Stream, lines: int, overlap: int = 0, late: int = 0) -> RowRing:
    return RowRing(stream.lines.line, lines * stream.lines.line, lines, overlap, late)


def _splits(streams: Sequence[Stream], pools: Sequence[Pool]) -> Iterator[list[tuple[Pool, Sequence[Stream]]]]:
    """Stretches of the chain for pools, few pools before many, large ones before small."""
    for count in range(1, min(len(pools), len(streams)) + 1):
        for chosen in itertools.permutations(sorted(pools, key=lambda pool: -pool.depth), count):
            for cuts in itertools.combinations(range(1, len(streams)), count - 1):
                ends = [0, *cuts, len(streams)]
                yield [(pool, streams[a:b]) for pool, (a, b) in zip(chosen, itertools.pairwise(ends), strict=True)]
