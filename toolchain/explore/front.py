"""The Pareto front of measured points, and the worth of a step along each axis."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolchain.explore.measure import Outcome
from toolchain.explore.study import BUILD_AXES, OBJECTIVES, Point, Study
from toolchain.spec.search_policies import EFFORT, SEARCH
from toolchain.tasks.variables import NONE

Measured = Mapping[Point, Outcome]


def dominates(one: Outcome, other: Outcome, objectives: Sequence[str]) -> bool:
    """Whether one is no worse anywhere and better somewhere; both have all objectives."""
    pairs = [(_cost(one, name), _cost(other, name)) for name in objectives]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _cost(outcome: Outcome, name: str) -> float:
    return -outcome.figures[name] if OBJECTIVES[name].more else outcome.figures[name]


def measured(found: Measured, objectives: Sequence[str]) -> dict[Point, Outcome]:
    """The points that have every objective."""
    return {point: each for point, each in found.items() if not each.refused and all(name in each.figures for name in objectives)}


def front(found: Measured, objectives: Sequence[str]) -> list[Point]:
    """Points that none dominates, the best by the first objective first; of equal ones all."""
    known = measured(found, objectives)
    best = [point for point, each in known.items() if not any(dominates(other, each, objectives) for other in known.values())]
    return sorted(best, key=lambda point: [_cost(known[point], name) for name in objectives])


@dataclass(frozen=True)
class Step:
    """From one value of an axis to the next, everything else the same: by how many per cent each objective changes, as the geometric mean over so
    many pairs of points."""

    axis: str
    first: str
    then: str
    pairs: int
    percent: Mapping[str, float]


def steps(study: Study, found: Measured) -> Iterator[Step]:
    """For each axis and each pair of values that stand beside each other in the study, where points were measured."""
    known = measured(found, study.objectives)
    for place, axis in enumerate(study.axes):
        for first, then in itertools.pairwise(axis.values):
            pairs = [(each, other) for point, each in known.items() if point[place] == first and (other := known.get(_with(point, place, then)))]
            if pairs:
                yield Step(axis.name, first, then, len(pairs), {name: _mean(pairs, name) for name in study.objectives})


def _with(point: Point, place: int, value: str) -> Point:
    return (*point[:place], value, *point[place + 1 :])


def _mean(pairs: Sequence[tuple[Outcome, Outcome]], name: str) -> float:
    """Figures are above zero but for bytes of a machine without DRAM, which then do not change."""
    ratios = [other.figures[name] / each.figures[name] for each, other in pairs if each.figures[name] > 0 and other.figures[name] > 0]
    return 100 * (math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) - 1) if ratios else 0.0


def shipped(study: Study, params: Mapping[str, int | str], config: str) -> Point | None:
    """The point of the study's machine as its file has it; None where a value of it is not in the study. A build's variable that has one value is
    fixed. params, config: of that machine."""
    own: dict[str, str] = {"config": config, "streams": "1", "search": SEARCH, "effort": str(EFFORT), "without": NONE}
    own |= {axis.name: axis.values[0] for axis in study.axes if axis.name in BUILD_AXES and len(axis.values) == 1}
    own |= {"machine": study.machine} | {name: str(value) for name, value in params.items()}
    values = tuple(own.get(axis.name, "") for axis in study.axes)
    return values if all(value in axis.values for value, axis in zip(values, study.axes, strict=True)) else None
