"""Chooses which neighbouring operations become a group: the cut of a region into stretches that is estimated to take the least time."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.shares import even_shares, tile_count
from toolchain.schedule.groups.members import Members
from toolchain.schedule.groups.rings import OnChip, RingPlaces
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Candidate, Residents, group_numbers, grouped, in_dram
from toolchain.schedule.placement.shared_memory import SharedSlot, SharedSlots
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.rows.row_loop import Loadable, RowLoad, row_names
from toolchain.schedule.tiling.step_cost import overlapped, step_cycles, tile_frame
from toolchain.schedule.tiling.tile_group import TileGroup
from toolchain.schedule.tiling.tile_search import Tiled
from toolchain.schedule.tiling.tiles import Tiling

Busy = dict[str, float]
"""Cycles by unit."""

LONGEST = 16
"""Operations of a group."""
WORTH = 0.9
"""The share of the time apart that operations which only share loads may take."""
AHEAD = (1, 0)
"""Slabs in advance, as tried for the estimate, which does not see them."""
WAYS = 24
"""Layouts of the rings of one group that are tried, at most."""


def load_cycles(group: RowGroup, problems: Sequence[Problem]) -> list[Busy]:
    """By load of the group, estimated as one full slab after the other. problems: of its operations, with the tensors on chip."""
    return [_row_cycles(problems[load.member], load) for load in group.loads]


def _row_cycles(problem: Problem, load: RowLoad) -> Busy:
    place, step = problem.kernel.place(load.place), problem.filling(load.place)
    assert step is not None
    numbers = {**problem.numbers, **problem.extents, **row_names(problem, place, range(min(load.size, load.height)))}
    names = {name: np.array([value], np.int64) for name, value in numbers.items()}
    found = step_cycles(problem, step, names, tile_frame(problem, names))
    return {unit: float(cycles[0]) * load.height / load.size for unit, cycles in found.items()}


@dataclass(frozen=True)
class Proposal:
    """group: with its turns. problems, tilings: of its members. cycles: estimated. streams: how many share its tiles."""

    group: RowGroup | TileGroup
    residents: Residents
    problems: Sequence[Problem]
    tilings: Sequence[Tiling]
    cycles: float
    streams: int = 1

    @property
    def loads(self) -> bool:
        """Whether the group loads rings of its own."""
        return isinstance(self.group, RowGroup) and bool(self.group.loads)

    @property
    def again(self) -> bool:
        """Whether it makes lines of a ring again, in its next round."""
        return isinstance(self.group, RowGroup) and any(ring.overlap for ring in self.residents.rings.values())


def over_tiles(plan: Plan, fused: Iterable[tuple[TileGroup, Tiled]]) -> list[Proposal]:
    """Groups over tiles."""
    return [Proposal(group, plan.residents, group.problems, tiled.tilings, tiled.cycles, tiled.streams) for group, tiled in fused]


def sure(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Proposals whose estimate holds without a program: it does not see how long the maker of a ring that makes lines again waits for readers."""
    return [proposal for proposal in proposals if not proposal.again]


@dataclass(frozen=True)
class GroupSearch:
    """places: where rings may stand. members: tiles of operations in a group."""

    plan: Plan
    places: RingPlaces
    members: Members
    loadable: dict[range, list[Loadable]] = field(default_factory=dict[range, list[Loadable]])

    def proposals(self, fused: Iterable[tuple[TileGroup, Tiled]] = ()) -> list[Proposal]:
        """Every group that is estimated to gain. fused: those over tiles that there could be."""
        return [*self._proposals(), *over_tiles(self.plan, fused)]

    def cut(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """The groups of the cut that is estimated to take the least time, in order."""
        cuts: list[tuple[float, list[Proposal]]] = [(0.0, [])]
        for index, tiling in enumerate(self.plan.tilings):
            cycles, groups = cuts[index]
            best = cycles + tiling.estimate, groups
            for proposal in (p for p in proposals if p.group.operations.stop == index + 1):
                cycles, groups = cuts[proposal.group.operations.start]
                if cycles + proposal.cycles < best[0]:
                    best = cycles + proposal.cycles, [*groups, proposal]
            cuts.append(best)
        return cuts[-1][1]

    def estimate(self, stretch: range, groups: Sequence[Proposal]) -> float:
        """Cycles of a stretch with these groups, all other operations of it alone."""
        inside = {index for proposal in groups for index in proposal.group.operations}
        return sum(p.cycles for p in groups) + sum(self.plan.tilings[index].estimate for index in stretch if index not in inside)

    def _proposals(self) -> Iterator[Proposal]:
        for first in range(len(self.plan.problems)):
            for stop in range(first + 1, min(first + LONGEST, len(self.plan.problems)) + 1):
                members = range(first, stop)
                if self._gains(members):
                    yield from (proposal for proposal in self._ways(members) if self._is_worth(proposal))

    def _is_worth(self, proposal: Proposal) -> bool:
        """Whether members gain enough: where none hands rows to another, the estimate must be well below that of operations apart."""
        apart = sum(self.plan.tilings[index].estimate for index in proposal.group.operations)
        return bool(proposal.group.passes) or proposal.cycles < WORTH * apart

    def _gains(self, members: range) -> bool:
        """Whether the first and the last one each pass a tensor on, take one or share one with other members, which goes through DRAM until now."""
        first, last = members[0], members[-1]
        if len(members) == 1:
            return bool(self._read[first]) and bool(self._loadable(members))
        begins = bool(self._made[first]) or any(self._read[first] & self._read[index] for index in members[1:])
        return begins and (self._takes(members) or any(self._read[last] & self._read[index] for index in members[:-1]))

    def _hands(self, members: range) -> bool:
        """Whether the first one passes a tensor on and the last one takes one, so that the group gains without loads of its own."""
        return len(members) > 1 and bool(self._made[members[0]]) and self._takes(members)

    def _takes(self, members: range) -> bool:
        """Whether the last one takes a tensor that a member makes, and that goes through DRAM until now."""
        return any(c.first in members and any(use.operation == members[-1] for use in c.reads) for c in self._passing)

    @cached_property
    def _read(self) -> list[frozenset[str]]:
        """By operation, the tensors that it reads in DRAM until now."""
        known, every = self.plan.residents.candidates, self.members.tensors(range(len(self.plan.problems)))
        return [frozenset(tensor for place, tensor in tensors.items() if place != "y" and tensor not in known) for tensors in every]

    @cached_property
    def _made(self) -> list[list[Candidate]]:
        """By operation, the tensors that it makes first, that could be rings and go through DRAM until now."""
        return [[c for c in self._passing if c.first == index] for index in range(len(self.plan.problems))]

    def _loadable(self, members: range) -> list[Loadable]:
        if members not in self.loadable:
            self.loadable[members] = self.members.loadable(members, self.plan.residents)
        return self.loadable[members]

    @cached_property
    def _passing(self) -> list[Candidate]:
        """Tensors that could be rings and go through DRAM until now."""
        return [c for name, c in self.places.candidates.items() if name not in self.plan.residents.candidates and c.lines is not None]

    def _ways(self, members: range) -> Iterator[Proposal]:
        """The members as one group, with loads of rows and without, with lines that are made again and without, as far as they have room on chip."""
        loads = self._loadable(members)
        for some in ([loads] if loads else []) + ([[]] if self._hands(members) else []):
            groups = self._groups(members, some, AHEAD)
            yield from (found for again in (False, True) if (found := self._propose(groups, again)) is not None)

    def moved(self, proposal: Proposal, ahead: int) -> Proposal | None:
        """The same group over rows with so many slabs in advance; None where it has no room on chip."""
        members = proposal.group.operations
        return self._propose(self._groups(members, self._loadable(members) if proposal.loads else [], (ahead,)), proposal.again)

    def _groups(self, members: range, loads: Sequence[Loadable], aheads: Sequence[int]) -> list[tuple[OnChip, RowGroup]]:
        """The members as a group, with each choice of tensors on chip; none where one of them has no loop over rows."""
        found: list[tuple[OnChip, RowGroup]] = []
        for chip in self.places.choices(members, [load.candidate for load in loads]):
            loops = self.members.loops(members, frozenset(chip.over))
            for ahead in aheads if loops else ():
                brought = [load.load(members, _size(load)) for load in loads]
                found.append((chip, RowGroup(members, loops, self.members.tensors(members, loads), ahead, brought)))
        return found

    def _propose(self, groups: Sequence[tuple[OnChip, RowGroup]], again: bool) -> Proposal | None:
        """The first of the groups that has room on chip. again: with lines that are made again."""
        for chip, group in groups:
            for residents in itertools.islice(self.places.placed(chip, group, again), WAYS):
                planned = self.members.tiles(group, residents)
                if planned is not None:
                    problems, tilings = planned
                    return Proposal(group, residents, problems, tilings, _cycles(group, problems, tilings))
        return None


def _size(load: Loadable) -> int:
    """Rows that are loaded at a time: a line."""
    return load.candidate.lines.together if load.candidate.lines else 1


def _cycles(group: RowGroup, problems: Sequence[Problem], tilings: Sequence[Tiling]) -> float:
    """The busiest unit, a part of the others' work, and their work on one slab of each member: the first and the last have none to hide behind.

    Members that only share loads follow one another as operations apart do, so they begin and end at the cost of those.
    """
    once: list[Mapping[str, float]] = [*(tiling.busy for tiling in tilings), *load_cycles(group, problems)]
    each = [{unit: cycles * times for unit, cycles in found.items()} for found, times in zip(once, group.times_made(problems), strict=True)]
    busy: dict[str, float] = {}
    for found in each:
        for unit, cycles in found.items():
            busy[unit] = busy.get(unit, 0.0) + cycles
    busiest = max(busy, key=lambda unit: busy[unit])
    others = [sum(cycles for unit, cycles in found.items() if unit != busiest) for found in each]
    ramp = sum(cycles / maker.count for cycles, maker in zip(others, group.makers, strict=True))
    if not group.passes:
        ramp += sum(_ends(tiling) for tiling in tilings)
    return float(overlapped(list(busy.values()), ramp))


def _ends(tiling: Tiling) -> float:
    """The part of a tiling's estimate that no other work hides: first loads, last stores and the cost of small steps."""
    return tiling.estimate - float(overlapped(list(tiling.busy.values()), 0.0))


def with_groups(plan: Plan, candidates: Mapping[str, Candidate], storage: Storage, chosen: Sequence[Proposal]) -> Plan:
    """The plan with some of its operations in groups. candidates, storage: of operations one by one, all of them."""
    if not chosen:
        return plan
    numbers = group_numbers(len(plan.problems), [p.group.operations for p in chosen])
    rings = {name: ring for p in chosen for name, ring in p.residents.rings.items()}
    slots = {**plan.residents.slots, **{name: p.residents.slots[name] for p in chosen for name in p.residents.rings}}
    kept = {name: candidates[name] if name in rings else plan.residents.candidates[name] for name in candidates if name in slots}
    for p in chosen:
        first, loads = p.group.operations[0], p.group.loads if isinstance(p.group, RowGroup) else ()
        kept |= {load.ring: replace(p.residents.candidates[load.ring], first=first, last=first) for load in loads}
    residents = Residents(slots, grouped(kept, numbers, rings), numbers, plan.residents.pools, rings)
    problems, tilings = list(plan.problems), list(plan.tilings)
    for p in chosen:
        problems[p.group.operations.start : p.group.operations.stop] = p.problems
        tilings[p.group.operations.start : p.group.operations.stop] = p.tilings
    hidden = {name for p in chosen if isinstance(p.group, TileGroup) for name in p.group.hidden}
    groups = {numbers[p.group.operations[0]]: p.group for p in chosen}
    inside = {index for p in chosen for index in p.group.operations}
    shares = {numbers[index]: own for index, own in plan.shares.items() if index not in inside}
    shares |= {numbers[p.group.operations[0]]: even_shares(tile_count(p.problems[-1], p.tilings[-1]), p.streams) for p in chosen if p.streams > 1}
    return Plan(plan.region, plan.order, problems, tilings, residents, in_dram(storage, residents, hidden=hidden), groups, shares)


@dataclass(frozen=True)
class Grouping:
    """base: the plan without groups. candidates: all tensors that may stay on chip, by operations one by one. members: tiles of operations in a
    group. chosen: the groups, in order. shared: buffers in memories that streams share."""

    base: Plan
    candidates: Mapping[str, Candidate]
    members: Members
    chosen: Sequence[Proposal] = ()
    shared: SharedSlots = field(default_factory=dict[str, SharedSlot])

    @cached_property
    def plan(self) -> Plan:
        """With its groups."""
        grouped = with_groups(self.base, self.candidates, self.members.storage, self.chosen)
        return replace(grouped, shared=self.shared, copies=self.base.copies)

    @property
    def cycles(self) -> float:
        """Estimated."""
        return sum(tiling.estimate for tiling in self.plan.tilings)

    @property
    def alone(self) -> "list[tuple[Problem, Tiling]]":
        """Operations in no group, with their tiles."""
        grouped = {index for proposal in self.chosen for index in proposal.group.operations}
        pairs = enumerate(zip(self.base.problems, self.base.tilings, strict=True))
        return [pair for index, pair in pairs if index not in grouped]

    def joined(self, proposal: Proposal) -> "Grouping":
        """With one more group."""
        chosen = sorted([*self.chosen, proposal], key=lambda each: each.group.operations.start)
        return replace(self, chosen=chosen)
