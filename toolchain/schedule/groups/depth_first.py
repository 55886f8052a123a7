"""Depth-first order: neighbours whose tensors stay on chip take turns over the rows, where that leaves less work for later.

One after the other, operations leave slower units behind: when a convolution is done, the addition behind it still has rows to add, and the next
convolution waits for them, or shares their banks' ports. Row by row, they are added while both convolutions before them run.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from toolchain.abi.origins import Origins
from toolchain.schedule.groups.grouping import Grouping
from toolchain.schedule.groups.search import Proposal
from toolchain.schedule.groups.stretch_clock import StretchClock
from toolchain.schedule.placement.on_chip_allocation import Residents, group_numbers, grouped
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.timing.simulate import Timeline

LONGEST = 4
"""The most operations that take turns: with more, their constants rarely stay on chip together."""
AROUND = 3
"""Operations behind them that are timed too: those that wait for what is left."""


def late_work(timeline: Timeline, origins: Origins) -> dict[int, float]:
    """By operation, the cycles that the busiest unit loses in later ones while other units still work for this one: it waits, or shares banks."""
    unit, operation, result = timeline.program.unit, origins.operation, timeline.result
    busiest = int(np.argmax(np.bincount(unit, timeline.costs.alone)))
    lost = timeline.waited + timeline.contended
    found: dict[int, float] = {}
    others = [np.flatnonzero(unit == each) for each in np.unique(unit).tolist() if each != busiest]
    for index in np.flatnonzero((unit == busiest) & (lost > 0) & (operation >= 0)).tolist():
        begins, ends = result.start[index] - timeline.waited[index], result.end[index]
        beside = [own[np.searchsorted(result.end[own], begins, "right") : np.searchsorted(result.start[own], ends)] for own in others]
        for late in np.unique(operation[np.concatenate(beside)]).tolist():
            if 0 <= late < operation[index]:
                found[late] = found.get(late, 0.0) + float(lost[index])
    return found


def depth_first(found: Grouping, clock: StretchClock, late: Mapping[int, float], least: float) -> Grouping:
    """The plan with neighbours taking turns where that is quicker. late: as `late_work` has it. least: cycles that are worth a trial."""
    for index in sorted(late, key=lambda index: (-late[index], index)):
        if late[index] < least:
            break
        ways = [found, *(found.joined(proposal) for proposal in _proposals(found, index))]
        around = _stretch(found, range(max(index - LONGEST, 0), min(index + 1 + AROUND, len(found.base.problems))))
        cycles = [clock.cycles(way.plan, around) for way in ways]
        found = ways[cycles.index(min(cycles))]
    return found


def _proposals(found: Grouping, last: int) -> Iterator[Proposal]:
    """The operation with neighbours before it that are alone until now."""
    for first in range(last - 1, max(last - LONGEST, -1), -1):
        if any(index in proposal.group.operations for proposal in found.chosen for index in (first, last)):
            return
        proposal = _turning(found, range(first, last + 1))
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
    planned = whole.tiles(group, residents) if group.chained else None
    return Proposal(group, residents, *planned, sum(tiling.estimate for tiling in planned[1])) if planned else None


def _stretch(found: Grouping, operations: range) -> range:
    """The operations, and all others of their groups."""
    for proposal in found.chosen:
        own = proposal.group.operations
        if own.start < operations.stop and operations.start < own.stop:
            operations = range(min(own.start, operations.start), max(own.stop, operations.stop))
    return operations
