"""Chooses which neighbouring operations become a group: the cut of a region into stretches that is estimated to take the least time."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolchain.schedule.form.plan import Plan
from toolchain.schedule.groups.members import Members
from toolchain.schedule.groups.rings import RingPlaces
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.residency import Candidate, Residents, group_numbers, grouped, in_dram
from toolchain.schedule.placement.storage import Storage
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tiling.tiles import FRICTION, Tiling

LONGEST = 16
"""Operations of a group."""
WAYS = 24
"""Layouts of the rings of one group that are tried, at most."""


@dataclass(frozen=True)
class Proposal:
    """group: with its turns. problems, tilings: of its members. cycles: estimated."""

    group: RowGroup
    residents: Residents
    problems: Sequence[Problem]
    tilings: Sequence[Tiling]
    cycles: float


@dataclass(frozen=True)
class GroupSearch:
    """places: where rings may stand. members: tiles of operations in a group."""

    plan: Plan
    places: RingPlaces
    members: Members

    def best(self) -> list[Proposal]:
        """The groups of the cheapest cut, in order."""
        cuts: list[tuple[float, list[Proposal]]] = [(0.0, [])]
        proposals = self._proposals()
        for index, tiling in enumerate(self.plan.tilings):
            cycles, groups = cuts[index]
            best = cycles + tiling.estimate, groups
            for proposal in (p for p in proposals if p.group.operations.stop == index + 1):
                cycles, groups = cuts[proposal.group.operations.start]
                if cycles + proposal.cycles < best[0]:
                    best = cycles + proposal.cycles, [*groups, proposal]
            cuts.append(best)
        return cuts[-1][1]

    def _proposals(self) -> list[Proposal]:
        found: list[Proposal] = []
        for first in range(len(self.plan.problems)):
            if not self._begins(first):
                continue
            for stop in range(first + 2, min(first + LONGEST, len(self.plan.problems)) + 1):
                members = range(first, stop)
                if self._gains(members):
                    proposal = self.propose(members)
                    found += [proposal] if proposal else []
        return found

    def _begins(self, first: int) -> bool:
        """Whether an operation makes a tensor that could be a ring and is not on chip."""
        return any(c.first == first for c in self._passing)

    def _gains(self, members: range) -> bool:
        """Whether the last one reads a tensor that goes through DRAM until now."""
        return any(c.first in members and any(use.operation == members[-1] for use in c.reads) for c in self._passing)

    @cached_property
    def _passing(self) -> list[Candidate]:
        """Tensors that could be rings and go through DRAM until now."""
        return [c for name, c in self.places.candidates.items() if name not in self.plan.residents.candidates and c.lines is not None]

    def propose(self, members: range) -> Proposal | None:
        """The members as one group; None where they have no room on chip."""
        for chip in self.places.choices(members):
            loops = self.members.loops(members, frozenset(chip.over))
            for ahead in (1, 0) if loops else ():
                group = RowGroup(members, loops, self.members.tensors(members), ahead)
                for residents in itertools.islice(self.places.placed(chip, group), WAYS):
                    planned = self.members.tiles(group, residents)
                    if planned is not None:
                        problems, tilings = planned
                        return Proposal(group, residents, problems, tilings, _cycles(group, tilings))
        return None


def _cycles(group: RowGroup, tilings: Sequence[Tiling]) -> float:
    """The busiest unit, a part of what the others do, and their work on one slab of each member: the first and the last have none to hide behind."""
    busy: dict[str, float] = {}
    for tiling in tilings:
        for unit, cycles in tiling.busy.items():
            busy[unit] = busy.get(unit, 0.0) + cycles
    busiest = max(busy, key=lambda unit: busy[unit])
    others = [sum(cycles for unit, cycles in tiling.busy.items() if unit != busiest) for tiling in tilings]
    ramp = sum(cycles / loop.count for cycles, loop in zip(others, group.loops, strict=True))
    return busy[busiest] + sum(others) * FRICTION + ramp


def with_groups(plan: Plan, candidates: Mapping[str, Candidate], storage: Storage, chosen: Sequence[Proposal]) -> Plan:
    """The plan with some of its operations in groups. candidates, storage: of operations one by one, all of them."""
    if not chosen:
        return plan
    numbers = group_numbers(len(plan.problems), [p.group.operations for p in chosen])
    rings = {name: ring for p in chosen for name, ring in p.residents.rings.items()}
    slots = {**plan.residents.slots, **{name: p.residents.slots[name] for p in chosen for name in p.residents.rings}}
    kept = {name: candidates[name] if name in rings else plan.residents.candidates[name] for name in candidates if name in slots}
    residents = Residents(slots, grouped(kept, numbers, rings), numbers, plan.residents.pools, rings)
    problems, tilings = list(plan.problems), list(plan.tilings)
    for p in chosen:
        problems[p.group.operations.start : p.group.operations.stop] = p.problems
        tilings[p.group.operations.start : p.group.operations.stop] = p.tilings
    groups = {numbers[p.group.operations[0]]: p.group for p in chosen}
    return Plan(plan.region, plan.order, problems, tilings, residents, in_dram(storage, residents), groups)
