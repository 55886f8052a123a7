"""Chooses groups by exact time: where the cuts that the estimate proposes differ, the program of each stretch is simulated."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.groups.search import GroupSearch, Proposal, sure
from toolchain.schedule.program import ordered_steps, time_emitted, turned, write_program
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tiling.slots import find_rings
from toolchain.schedule.tiling.tile_group import TileGroup
from toolchain.spec.model import Machine

Key = tuple[object, ...]

Way = Sequence[Proposal]
"""Groups of a stretch, in order; its other operations are alone."""
OUT = 1.3
"""A way that is estimated at so many times the least of those that make no line again is not timed: the estimate errs by less."""
GAIN = 0.999
"""The part of the time that another way than the estimate's may take: less is decided by operations farther away."""
SHARE = 0.3
LEAST = 2048
"""Tiles that are written down to be timed, at most: a share of the region's, but so many at least. Then the estimate decides."""
MOST_AHEAD = 3
"""Slabs in advance that are tried."""


@dataclass(frozen=True)
class StretchClock:
    """choice: of tiles, which knows the numbers of an operation that its instructions name. known: cycles of stretches that were timed; one that does
    the same on the same tiles takes as long."""

    machine: Machine
    choice: TileChoice
    known: dict[Key, float] = field(default_factory=dict[Key, float])

    def work(self, plan: Plan, stretch: range) -> int:
        """Tiles that have to be written down to time it; none for a stretch whose time is known."""
        part = plan.part(stretch)
        return 0 if self._key(part) in self.known else tiles_of(part)

    def cycles(self, plan: Plan, stretch: range) -> float:
        """stretch: whole groups of the plan."""
        key = self._key(plan.part(stretch))
        if key not in self.known:
            part = turned(plan).part(stretch)
            placed, emitted = write_program(self.machine, part, ordered_steps(part, find_rings(plan.problems)))
            self.known[key] = time_emitted(self.machine, placed, emitted).cycles
        return self.known[key]

    def _key(self, part: Plan) -> Key:
        """The facts that decide its time: every operation with its tiles, and which of them hands which tensor to which; not where they stand in
        DRAM."""
        tensors: dict[str, int] = {}
        found: list[Key] = []
        for problem, tiling, bound in zip(part.problems, part.tilings, part.region.operations, strict=True):
            own = {place: part.dram.places[name][0] for place, name in bound.tensors.items()}
            hands = tuple((place, tensors.setdefault(name, len(tensors)), name in part.dram.buffers) for place, name in own.items())
            kept = tuple((place, each.slot, each.size, each.ring) for place, each in problem.kept.items())
            rooms = tuple((name, room, tiling.places[name]) for name, room in tiling.room.items())
            found.append((self.choice.key(problem), hands, kept, tuple(tiling.sizes.items()), tiling.order, tiling.backward, rooms))
        return (*found, *((members, _group(group)) for members, group in part.runs()))


@dataclass(frozen=True)
class Clocks:
    """A clock for each part of a machine's ports, so that plans of other regions and copies need not find the same tiles again. known: so far.

    All of one machine and its kernels."""

    known: dict[Key, StretchClock] = field(default_factory=dict[Key, StretchClock])

    def __reduce__(self) -> tuple[type["Clocks"], tuple[()]]:
        """They stay in their process: another one finds its own."""
        return type(self), ()

    def of(self, machine: Machine, contexts: int, timed: int) -> StretchClock:
        """machine: with a copy's part of the ports. contexts, timed: as for the tiles."""
        return self.known.setdefault((machine.timing.resources, contexts, timed), StretchClock(machine, TileChoice(contexts, timed)))


def tiles_of(plan: Plan) -> int:
    """Tiles of all operations."""
    pairs = zip(plan.problems, plan.tilings, strict=True)
    return sum(math.prod(-(-extent // tiling.sizes[name]) for name, extent in problem.extents.items()) for problem, tiling in pairs)


def _group(group: RowGroup | TileGroup | None) -> Key:
    if isinstance(group, RowGroup):
        loads = tuple((load.member, load.place, load.size) for load in group.loads)
        return *loads, *((turn.member, turn.slab) for turn in group.turns)
    return (group is not None,)


@dataclass(frozen=True)
class Stretch:
    """ways: that are worth timing, those that make lines again last, else the one with the lowest estimate first. around: the operations that are
    timed, neighbours among them. close: the second estimate as a multiple of the first."""

    ways: Sequence[Way]
    around: range
    close: float


@dataclass(frozen=True)
class TimedGroups:
    """grouped: the plan of the region with these groups and no others."""

    search: GroupSearch
    clock: StretchClock
    grouped: Callable[[Way], Plan]

    def best(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """The groups of the quickest cut. Some that make lines again are among them where the whole plan is quicker so than with the best of the
        others: the estimate does not see how long they wait."""
        first = sure(proposals)
        once = self._best([self.search.cut(first), self.search.cut([p for p in first if not p.loads])])
        found = self._best([once, self.search.cut(proposals)]) if len(first) < len(proposals) else once
        return found if any(p.again for p in found) and self._cycles(found) < self._cycles(once) else once

    def _cycles(self, way: Way) -> float:
        """Cycles of the whole plan."""
        return self.clock.cycles(self.grouped(way), range(len(self.search.plan.problems)))

    def _best(self, cuts: Sequence[Way]) -> list[Proposal]:
        """Every stretch in which cuts differ is timed by itself, those with the closest estimates first."""
        timer = _Timer(self.clock, self.grouped, max(SHARE * tiles_of(self.search.plan), LEAST))
        found: list[Proposal] = []
        for stretch in sorted(self._stretches(cuts), key=lambda stretch: stretch.close):
            found += self._quickest(timer, stretch)
        return sorted(found, key=lambda proposal: proposal.group.operations.start)

    def _stretches(self, cuts: Sequence[Way]) -> Iterator[Stretch]:
        spans = list(_spans(cuts))
        for span in spans:
            ways = _distinct([*([p for p in cut if p.group.operations[0] in span] for cut in cuts), []])
            again = [any(proposal.again for proposal in way) for way in ways]
            estimates = [self.search.estimate(span, way) for way in ways]
            ranked = sorted(range(len(ways)), key=lambda number: (again[number], estimates[number]))
            least, second = (estimates[number] for number in ranked[:2])
            kept = [ways[number] for number in ranked if estimates[number] <= OUT * least]
            yield Stretch(kept, _with_neighbours(span, spans, len(self.search.plan.problems)), second / max(least, 1.0))

    def _quickest(self, timer: "_Timer", stretch: Stretch) -> Way:
        """The way of a stretch that takes the least time."""
        best = timer.quickest(stretch.around, stretch.ways)
        for number in range(len(best)):
            for step in (1, -1):
                best = self._moved(timer, stretch.around, best, number, step)
        return best

    def _moved(self, timer: "_Timer", around: range, way: Way, number: int, step: int) -> Way:
        """The way with one of its groups working more or fewer slabs in advance, as long as each step makes it quicker."""
        while isinstance(group := way[number].group, RowGroup) and 0 <= group.ahead + step <= MOST_AHEAD:
            other = self.search.moved(way[number], group.ahead + step)
            found = timer.quickest(around, [way, [*way[:number], other, *way[number + 1 :]]]) if other else way
            if found is way:
                break
            way = found
        return way


@dataclass
class _Timer:
    """left: tiles that may still be written down."""

    clock: StretchClock
    grouped: Callable[[Way], Plan]
    left: float

    def quickest(self, around: range, ways: Sequence[Way]) -> Way:
        """The first way, or the quickest of those that are quicker, as far as they can be timed."""
        plans = [self.grouped(way) for way in ways]
        works = list(itertools.takewhile(lambda work: work <= self.left, itertools.accumulate(self.clock.work(plan, around) for plan in plans)))
        if len(works) < 2:
            return ways[0]
        self.left -= works[-1]
        cycles = [self.clock.cycles(plan, around) for plan in plans[: len(works)]]
        best = cycles.index(min(cycles))
        return ways[best] if cycles[best] < GAIN * cycles[0] else ways[0]


def _distinct(ways: Sequence[Way]) -> list[Way]:
    return list({tuple(map(id, way)): way for way in ways}.values())


def _spans(cuts: Sequence[Way]) -> Iterator[range]:
    """The stretches outside which all operations are alone in all of the cuts."""
    spans = sorted((p.group.operations.start, p.group.operations.stop) for cut in cuts for p in cut)
    while spans:
        first, stop = spans[0]
        while spans and spans[0][0] < stop:
            stop = max(stop, spans.pop(0)[1])
        yield range(first, stop)


def _with_neighbours(stretch: range, others: Sequence[range], count: int) -> range:
    """The stretch with the operation before and after it, where these are alone: the loads and stores that they leave belong to its time."""
    alone = [index for index in (stretch.start - 1, stretch.stop) if 0 <= index < count and not any(index in other for other in others)]
    return range(min([stretch.start, *alone]), max([stretch.stop - 1, *alone]) + 1)
