"""Depth-first order: neighbours whose tensors stay on chip take turns over the rows, where that leaves less work for later.

One after the other, operations leave slower units behind: when a convolution is done, the addition behind it still has rows to add, and the next
convolution waits for them, or shares their banks' ports. Row by row, they are added while both convolutions before them run.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np

from toolchain.isa.program import Origins
from toolchain.schedule.groups.search import Grouping, Proposal
from toolchain.schedule.groups.timed import StretchClock
from toolchain.schedule.placement.on_chip_allocation import Residents, group_numbers, grouped
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.timing.simulate import Timeline

LONGEST = 4
"""The most operations that take turns with those behind them left out: with more, their constants rarely stay on chip together."""
BEHIND = range(2, 6)
"""How many operations behind a late one take turns with it, where they wait for it."""
AROUND = 3
"""Operations behind them that are timed too: those that wait for the rest of their work."""


class Lost(NamedTuple):
    """Cycles that the busiest unit loses to an operation that other units still work for: it waits for its results, or shares banks with it."""

    waited: float
    contended: float

    @property
    def cycles(self) -> float:
        return self.waited + self.contended


def busiest_unit(timeline: Timeline) -> int:
    """The number of the unit with the most work."""
    return int(np.argmax(np.bincount(timeline.program.unit, timeline.costs.alone)))


def late_work(timeline: Timeline, origins: Origins) -> dict[int, Lost]:
    """By operation, the cycles that later ones lose while other units still work for it."""
    unit, operation, result = timeline.program.unit, origins.operation, timeline.result
    busiest = busiest_unit(timeline)
    found: dict[int, Lost] = {}
    others = [np.flatnonzero(unit == each) for each in np.unique(unit).tolist() if each != busiest]
    losing = np.flatnonzero((unit == busiest) & (timeline.waited + timeline.contended > 0) & (operation >= 0))
    begins, ends = result.start[losing] - timeline.waited[losing], result.end[losing]
    firsts = [np.searchsorted(result.end[own], begins, "right").tolist() for own in others]
    stops = [np.searchsorted(result.start[own], ends).tolist() for own in others]
    made_by = [operation[own].tolist() for own in others]
    for number, index in enumerate(losing.tolist()):
        waited, contended = float(timeline.waited[index]), float(timeline.contended[index])
        beside = (made[first[number] : stop[number]] for made, first, stop in zip(made_by, firsts, stops, strict=True))
        for late in sorted(set[int]().union(*beside)):
            if 0 <= late < operation[index]:
                before = found.get(late, Lost(0.0, 0.0))
                found[late] = Lost(before.waited + waited, before.contended + contended)
    return found


def depth_first(found: Grouping, clock: StretchClock, late: Mapping[int, Lost], least: float) -> Grouping:
    """The plan with neighbours taking turns where that is quicker. late: as `late_work` has it. least: cycles that are worth a trial."""
    for index in sorted(late, key=lambda index: (-late[index].cycles, index)):
        if late[index].cycles < least:
            break
        before = [range(first, index + 1) for first in range(index - 1, index - LONGEST, -1)]
        behind = [range(index, index + 1 + more) for more in BEHIND] if late[index].waited >= least else []
        around = range(max(index - LONGEST, 0), min(index + BEHIND.stop + AROUND, len(found.base.problems)))
        timed = partial(_timed, found, clock, around)
        best = min((timed(proposal) for proposal in _proposals(found, before)), key=_cycles, default=(found, inf))
        best = min((found, clock.cycles(found.plan, _whole(found, around))), best, key=_cycles)
        for proposal in _proposals(found, behind):
            longer = timed(proposal)
            if longer[1] >= best[1]:
                break
            best = longer
        found = best[0]
    return found


def _timed(found: Grouping, clock: StretchClock, around: range, proposal: Proposal) -> tuple[Grouping, float]:
    """The plan with one more group, and the cycles of the operations around it."""
    way = found.joined(proposal)
    return way, clock.cycles(way.plan, _whole(found, around))


def _cycles(timed: tuple[Grouping, float]) -> float:
    return timed[1]


def _proposals(found: Grouping, ranges: Iterable[range]) -> Iterator[Proposal]:
    """Groups of the ranges whose operations are alone until now, where they can be groups."""
    taken = {index for proposal in found.chosen for index in proposal.group.operations}
    for members in ranges:
        if members.start >= 0 and members.stop <= len(found.base.problems) and taken.isdisjoint(members):
            proposal = _turning(found, members)
            if proposal is not None:
                yield proposal


def _turning(found: Grouping, members: range) -> Proposal | None:
    """The members over one loop of rows, with every tensor where it is; None where one hands no rows on, or stands where another one's still are."""
    base, whole = found.base.residents, found.members
    numbers = group_numbers(len(base.groups), [members])
    kept = grouped(base.candidates, numbers)
    residents = Residents(base.slots, kept, numbers, base.pools)
    over = frozenset(name for name, c in kept.items() if any(base.slots.get(other) == base.slots[name] for other in c.over))
    loops = whole.loops(members, over)
    if not loops or any(residents.collisions()):
        return None
    group = RowGroup(members, loops, whole.tensors(members), 0)
    planned = whole.tiles(group, residents) if group.connected else None
    return Proposal(group, residents, *planned, sum(tiling.estimate for tiling in planned[1])) if planned else None


def _whole(found: Grouping, operations: range) -> range:
    """The operations, and all others of their groups."""
    for proposal in found.chosen:
        own = proposal.group.operations
        if own.start < operations.stop and operations.start < own.stop:
            operations = range(min(own.start, operations.start), max(own.stop, operations.stop))
    return operations
