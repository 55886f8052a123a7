"""Choose the tensors that stay on chip between operations, and their slots, by lives and sizes; a resident tensor never moves."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolchain.schedule.kernels.kernel import Place, Whole
from toolchain.schedule.kernels.pools import Pool, Slot, beside
from toolchain.schedule.kernels.problem import Kept, Problem
from toolchain.schedule.kernels.rounds import RowRing
from toolchain.schedule.placement.dram_buffers import Storage, lasting
from toolchain.schedule.regions.region import Region
from toolchain.spec.evaluate import constant

Form = tuple[str, int, tuple[tuple[str, int], ...]]
"""Memory, size and names: two operations with the same one can hand a tensor over."""


@dataclass(frozen=True)
class Lines:
    """How a tensor goes on from row to row. together: rows of a line. pitch: the name that is the distance of two lines. line: that distance where
    they stand close to each other, in elements. most: the largest distance."""

    together: int
    pitch: str
    line: int
    most: int


@dataclass(frozen=True)
class Use:
    """An operation's place for a tensor of a buffer. names: those of the tensor itself, which may be a part of the buffer. lines: None for one that
    cannot be a ring of rows."""

    operation: int
    place: Place
    form: Form
    names: Mapping[str, int]
    lines: Lines | None = None


@dataclass(frozen=True)
class Candidate:
    """A buffer that could stay on chip. writes, reads: those that can use it there. first, last: groups between which it must stay.

    stored: it is needed in DRAM as well. over: buffers in whose place it may be made, as they are last read then. lines: None where it cannot be a
    ring of rows.
    """

    name: str
    memory: str
    size: int
    writes: tuple[Use, ...]
    reads: tuple[Use, ...]
    first: int
    last: int
    stored: bool
    over: tuple[str, ...]
    lines: Lines | None = None

    def meets(self, other: "Candidate", apart: int = 0) -> bool:
        """Whether there are fewer than `apart` groups between one and the other."""
        return self.first - apart <= other.last and other.first - apart <= self.last


def find_candidates(region: Region, problems: Sequence[Problem], storage: Storage) -> dict[str, Candidate]:
    """By buffer, every tensor that is made and read again in the same form; each operation is a group of its own."""
    uses: dict[str, list[tuple[bool, int, Use | None]]] = {}
    for index, bound in enumerate(region.operations):
        for name, tensor in bound.tensors.items():
            use = find_use(problems[index], index, name, storage, tensor)
            uses.setdefault(storage.places[tensor][0], []).append((_written(problems[index], name), index, use))
    found: dict[str, Candidate] = {}
    for name, buffer in storage.buffers.items():
        candidate = None if _given(region, storage, name) else _candidate(name, uses[name], buffer.segment == "results")
        if candidate is not None:
            found[name] = candidate
    return {name: _with_over(region, storage, found, candidate) for name, candidate in found.items()}


def _given(region: Region, storage: Storage, name: str) -> bool:
    return any(storage.places[tensor][0] == name for tensor in region.inputs)


def _written(problem: Problem, name: str) -> bool:
    return any(step.kind == "store" and step.place == name for step in problem.steps)


def find_use(problem: Problem, index: int, name: str, storage: Storage, tensor: str) -> Use | None:
    """The tensor as the operation would have it on chip, or None where it would not."""
    place = next((p for p in problem.kernel.places if p.name == name), None)
    if place is None or place.whole is None:
        return None
    root, channel = storage.places[tensor]
    scope = {**problem.numbers, f"{name}_channels": storage.buffers[root].channels, f"{name}_channel": 0}
    if place.whole.when is not None and not constant(place.whole.when, scope):
        return None
    form = place.memory, constant(place.whole.size, scope), tuple(sorted(_names(place.whole, scope).items()))
    return Use(index, place, form, _names(place.whole, {**scope, f"{name}_channel": channel}), _lines(place.whole, scope))


def _lines(whole: Whole, scope: Mapping[str, int]) -> Lines | None:
    rows = whole.rows
    return Lines(constant(rows.together, scope), rows.pitch, constant(whole.names[rows.pitch], scope), constant(rows.most, scope)) if rows else None


def _names(whole: Whole, scope: Mapping[str, int]) -> dict[str, int]:
    return {key: constant(e, scope) for key, e in whole.names.items()}


def _candidate(name: str, uses: Sequence[tuple[bool, int, Use | None]], needed: bool) -> Candidate | None:
    writes = [use for written, _, use in uses if written]
    whole = [use for use in writes if use is not None]
    if not whole or len(whole) < len(writes) or len({use.form for use in whole}) > 1:
        return None
    form = whole[0].form
    reads = [use for written, _, use in uses if not written and use is not None and use.form == form]
    if not reads:
        return None
    elsewhere = sum(not written for written, _, _ in uses) > len(reads)
    moments = [use.operation for use in [*whole, *reads]]
    lines = common_lines([use.lines for use in [*whole, *reads]])
    return Candidate(name, form[0], form[1], tuple(whole), tuple(reads), min(moments), max(moments), needed or elsewhere, (), lines)


def common_lines(found: Sequence[Lines | None]) -> Lines | None:
    """The lines that all uses have in common, as far apart as all allow."""
    some = [lines for lines in found if lines is not None]
    if len(some) < len(found) or len({(lines.together, lines.pitch, lines.line) for lines in some}) > 1:
        return None
    return replace(some[0], most=min(lines.most for lines in some))


def _with_over(region: Region, storage: Storage, found: Mapping[str, Candidate], candidate: Candidate) -> Candidate:
    """Buffers of the same form that the operation that makes this one reads as a whole, for the last time."""
    if len(candidate.writes) != 1 or storage.buffers[candidate.name].parts > 1:
        return candidate
    made = candidate.writes[0]
    assert made.place.whole is not None
    over: list[str] = []
    for name in made.place.whole.over:
        tensor = region.operations[made.operation].tensors.get(name, "")
        other = found.get(storage.places[tensor][0]) if tensor else None
        if other is not None and other.last == made.operation and other.writes[0].form == made.form and storage.buffers[other.name].parts == 1:
            over.append(other.name)
    return replace(candidate, over=tuple(over))


def group_numbers(operations: int, groups: Sequence[range]) -> tuple[int, ...]:
    """The number of each operation's group, where `groups` are those of several operations."""
    inside = {index for members in groups for index in members[1:]}
    return tuple(itertools.accumulate((index not in inside for index in range(operations)), initial=-1))[1:]


def grouped(candidates: Mapping[str, Candidate], groups: Sequence[int], rings: Collection[str] = ()) -> dict[str, Candidate]:
    """The candidates where operations are in groups, whose numbers are given: they work at the same time, so a buffer that several of one group read
    is not made over before all of them are done. rings: names of those that are rings of rows."""
    alone = {name for name, c in candidates.items() if len({use.operation for use in c.reads if groups[use.operation] == groups[c.last]}) == 1}
    found = {
        name: replace(c, first=groups[c.first], last=groups[c.last], over=tuple(other for other in c.over if other in alone))
        for name, c in candidates.items()
    }
    return {name: _streamed(c, groups) if name in rings else c for name, c in found.items()}


def _streamed(candidate: Candidate, groups: Sequence[int]) -> Candidate:
    """The candidate for a ring of rows: only the group that makes it reads it there, any other operation in DRAM."""
    group = candidate.first
    reads = tuple(use for use in candidate.reads if groups[use.operation] == group)
    return replace(candidate, reads=reads, last=group, stored=candidate.stored or len(reads) < len(candidate.reads))


@dataclass(frozen=True)
class Residents:
    """slots: of each buffer that stays on chip. candidates: those buffers. groups: the number of each operation's group. pools: of the machine.
    rings: those that are rings of rows; the slot of one is that of its first line."""

    slots: Mapping[str, Slot]
    candidates: Mapping[str, Candidate]
    groups: Sequence[int]
    pools: Mapping[str, tuple[Pool, ...]]
    rings: Mapping[str, RowRing] = field(default_factory=dict[str, RowRing])

    def kept(self, operation: int) -> dict[str, Kept]:
        """By place, the tensors of an operation that are on chip."""
        return {
            use.place.name: self._kept(name, use)
            for name, candidate in self.candidates.items()
            for use in (*candidate.writes, *candidate.reads)
            if use.operation == operation
        }

    def _kept(self, name: str, use: Use) -> Kept:
        if name not in self.rings or use.lines is None:
            return Kept(self.slots[name], self.candidates[name].size, use.names)
        ring = self.rings[name]
        names = {**use.names, use.lines.pitch: ring.pitch}
        return Kept(self.slots[name], ring.depth, names, ring if ring.lines else None, use.lines.together)

    def live(self, group: int, around: int = 0) -> list[Candidate]:
        """Buffers that are needed during a group, or so many groups before or after it."""
        return [c for c in self.candidates.values() if c.first - around <= group <= c.last + around]

    def left(self, operation: int, around: int = 0) -> Mapping[str, tuple[Pool, ...]]:
        """The stretches of each pool that no buffer takes during an operation's group, or so many groups before or after it; one of no depth where
        they take everything."""
        live, found = self.live(self.groups[operation], around), dict[str, tuple[Pool, ...]]()
        for memory, whole in self.pools.items():
            mine = [c.name for c in live if c.memory == memory]
            round_all = [name for name in mine if self.goes_round(name)]
            ringed = {self.slots[name].bank for name in round_all}
            here = [(self.slots[name], self.size(name)) for name in mine if name not in round_all]
            here += [(Slot(pool.bank, pool.start), pool.depth) for pool in whole if pool.bank in ringed]
            found[memory] = beside(whole, here) if here else whole
        return found

    def size(self, name: str) -> int:
        """Elements of each bank that a buffer takes."""
        return self.rings[name].depth if name in self.rings else self.candidates[name].size

    def stored(self, name: str) -> bool:
        """Whether a buffer must be in DRAM."""
        return name not in self.candidates or self.candidates[name].stored

    def goes_round(self, name: str) -> bool:
        """Whether a buffer is a ring that goes round all of its pool."""
        return name in self.rings and not self.rings[name].lines

    def collisions(self) -> Iterator[tuple[str, str]]:
        """Pairs of buffers that need some element at the same time, the later one of `slots` first."""
        names = list(self.slots)
        return ((name, other) for number, name in enumerate(names) for other in names[:number] if self._collide(name, other))

    def _collide(self, name: str, other: str) -> bool:
        """Rings that go round one pool share it: whether their rows meet is seen when these are known."""
        one, two, slots = self.candidates[name], self.candidates[other], (self.slots[name], self.slots[other])
        if one.memory != two.memory or slots[0].bank != slots[1].bank or not one.meets(two):
            return False
        if self.goes_round(name) or self.goes_round(other):
            return not (self.goes_round(name) and self.goes_round(other))
        over = slots[0] == slots[1] and (name in two.over or other in one.over)
        return not over and slots[0].address < slots[1].address + self.size(other) and slots[1].address < slots[0].address + self.size(name)


def in_dram(storage: Storage, residents: Residents, every: bool = False, hidden: Collection[str] = ()) -> Storage:
    """The buffers that must be in DRAM, each for as long as groups use it. every: all of them but those that are `hidden`: passed on tile by tile."""
    needed = [name for name in storage.buffers if (every or residents.stored(name)) and name not in hidden]
    return replace(storage, buffers={name: lasting(storage.buffers[name], residents.groups) for name in needed})


def place_residents(candidates: Mapping[str, Candidate], pools: Mapping[str, tuple[Pool, ...]], operations: int) -> Residents:
    """For operations one by one: the largest buffers first, each in the smallest pool with room, at the lowest address; the others stay in DRAM.

    Where as much can stay so, as few as possible take the room of a tensor that the operation just before still reads: that would have to
    end first.
    """
    tried = [_slots(candidates, pools, apart) for apart in ((1,), (1, 0), (0,))]
    slots = max(tried, key=lambda found: sum(candidates[name].size for name in found))
    kept = {name: candidates[name] for name in candidates if name in slots}
    return Residents(slots, kept, range(operations), pools)


def _slots(candidates: Mapping[str, Candidate], pools: Mapping[str, tuple[Pool, ...]], apart: Sequence[int]) -> dict[str, Slot]:
    """apart: operations between the last use of some room and its next owner, the first number to try first."""
    slots: dict[str, Slot] = {}
    for members in sorted(_groups(candidates), key=lambda group: (-group[0].size, min(c.first for c in group))):
        found = (find_room(members[0].size, list(_others(members, candidates, slots, more)), pools[members[0].memory]) for more in apart)
        slot = next((s for s in found if s is not None), None)
        if slot is not None:
            slots |= {c.name: slot for c in members}
    return slots


def _others(members: Sequence[Candidate], candidates: Mapping[str, Candidate], slots: Mapping[str, Slot], apart: int) -> Iterator[tuple[Slot, int]]:
    """Slots and sizes of those placed that live too near in time."""
    for name, slot in slots.items():
        other = candidates[name]
        if other.memory == members[0].memory and any(other.meets(c, apart) for c in members):
            yield slot, other.size


def _groups(candidates: Mapping[str, Candidate]) -> list[list[Candidate]]:
    """Buffers that share one place, because each is made over the one before."""
    group_of: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates.values(), key=lambda c: (c.first, c.name)):
        taken = next((group_of[name] for name in candidate.over if name in group_of and group_of[name][-1].name == name), list[Candidate]())
        taken.append(candidate)
        group_of[candidate.name] = taken
    return list({id(group): group for group in group_of.values()}.values())


def find_room(size: int, others: Sequence[tuple[Slot, int]], pools: Sequence[Pool]) -> Slot | None:
    """The lowest address beside others, in the smallest pool that has one."""
    for pool in sorted(pools, key=lambda p: (p.depth, p.bank)):
        at = pool.start
        for start, stop in sorted((slot.address, slot.address + room) for slot, room in others if slot.bank == pool.bank):
            if start >= at + size:
                break
            at = max(at, stop)
        if at + size <= pool.start + pool.depth:
            return Slot(pool.bank, at)
    return None


def without(candidates: Mapping[str, Candidate], names: Collection[str]) -> dict[str, Candidate]:
    """The others, none of them over one that is left out."""
    return {name: c for name, c in candidates.items() if name not in names}
