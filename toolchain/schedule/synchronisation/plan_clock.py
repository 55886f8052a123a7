"""When the instructions of a plan start and end, as its tokens let them; counters, queues and ports set no limits here."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.schedule.synchronisation.plan import ADDED, Plan
from toolchain.timing.cost import instruction_costs


@dataclass(frozen=True)
class Durations:
    """Cycles by instruction of the program that is planned. held: that it keeps its unit. latency: from then until its tokens show."""

    held: Sequence[int]
    latency: Sequence[int]

    def reordered(self, order: Ints) -> "Durations":
        """Cycles of the same instructions in another order, int64 [n]."""
        indices: list[int] = order.tolist()
        return Durations([self.held[index] for index in indices], [self.latency[index] for index in indices])


@dataclass(frozen=True)
class PlanTimes:
    """Cycles by instruction of the plan. start: when its unit is taken. shown: when its tokens show."""

    start: Sequence[int]
    shown: Sequence[int]


def durations(program: Program, footprints: Footprints, provenance: Provenance) -> Durations:
    """Each instruction as long as it takes alone. Raises UserError E0510, E0122."""
    costs = instruction_costs(program, footprints, provenance)
    return Durations((costs.setup + costs.alone).tolist(), costs.latency.tolist())


def plan_times(plan: Plan, known: Durations) -> PlanTimes:
    """One pass in the order of the plan, in which every token goes from an earlier instruction to a later one; one that was added takes a cycle."""
    waits: list[list[int]] = [[] for _ in plan.source]
    for link in plan.links.values():
        for poster, taker in zip(link.posts, link.takes, strict=True):
            waits[taker].append(poster)
    free, start, shown = [0] * len(plan.members), list[int](), list[int]()
    for source, unit, posters, held in zip(plan.source, plan.unit, waits, plan.held, strict=True):
        start.append(max([free[unit], *(shown[poster] for poster in (*posters, *held))]))
        free[unit] = start[-1] + (1 if source == ADDED else known.held[source])
        shown.append(free[unit] + (0 if source == ADDED else known.latency[source]))
    return PlanTimes(start, shown)
