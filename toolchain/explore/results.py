"""The results of a study: its Pareto front and the worth of a step along each axis; as text, CSV and JSON, and as one page with the front drawn."""

import csv
import io
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.explore.measure import Outcome
from toolchain.explore.session import figure_text
from toolchain.explore.study import BUILD_AXES, OBJECTIVES, QUEUED, Point, Study, point_text
from toolchain.report.tables import counted, html_environment, table_text
from toolchain.spec.errors import one_line
from toolchain.spec.search_policies import EFFORT, SEARCH
from toolchain.tasks.variables import NONE

if TYPE_CHECKING:
    from toolchain.spec.typed_json import Tree

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
class AxisStep:
    """From one value of an axis to the next, everything else the same: by how many per cent each objective changes, as the geometric mean over so
    many pairs of points."""

    axis: str
    first: str
    then: str
    pairs: int
    percent: Mapping[str, float]


def steps(study: Study, found: Measured) -> Iterator[AxisStep]:
    """For each axis and each pair of values that stand beside each other in the study, where points were measured."""
    known = measured(found, study.objectives)
    for place, axis in enumerate(study.axes):
        for first, then in itertools.pairwise(axis.values):
            pairs = [(each, other) for point, each in known.items() if point[place] == first and (other := known.get(_with(point, place, then)))]
            if pairs:
                yield AxisStep(axis.name, first, then, len(pairs), {name: _mean(pairs, name) for name in study.objectives})


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


SHOWN = 20
"""Points of the front, and refusals, that a terminal shows."""

WIDE, HIGH, MARGIN = 900, 480, 60
"""The picture in its own units."""
TICKS = 5


@dataclass(frozen=True)
class StudyResult:
    """found: every point, in the order of the study."""

    study: Study
    found: Measured

    @property
    def front(self) -> list[Point]:
        return front(self.found, self.study.objectives)

    @property
    def steps(self) -> list[AxisStep]:
        return list(steps(self.study, self.found))

    @property
    def left(self) -> int:
        """Points of a search that knows them all which are not measured, as another process has them."""
        study = self.study
        return max(min(study.budget, study.size) - len(self.found), 0) if study.search in QUEUED else 0

    @property
    def refusals(self) -> dict[str, int]:
        """Reasons why points cannot be, and how often each was met."""
        reasons: dict[str, int] = {}
        for each in self.found.values():
            if each.refused:
                reasons[each.refused] = reasons.get(each.refused, 0) + 1
        return reasons

    @property
    def beaten(self) -> list[Point]:
        """Points of the front that are better than the machine as its file has it in every objective, or in some and worse in none."""

        start = self.found.get(self.study.start) if self.study.start else None
        if start is None or self.study.start not in measured(self.found, self.study.objectives):
            return []
        return [point for point in self.front if dominates(self.found[point], start, self.study.objectives)]


def result_text(result: StudyResult, terminal: bool = False, width: int = 120) -> str:
    """Ends in one line feed."""
    study, known = result.study, measured(result.found, result.study.objectives)
    refused = len(result.found) - len(known)
    head = f"{', '.join(study.models) or 'its own models'} on {', '.join(study.machines)}: {counted(len(result.found), 'point')} of {study.size}"
    parts = [f"{head}, {len(result.front)} on the front" + (f", {refused} refused\n" if refused else "\n")]
    if known:
        parts.append(_front(result, terminal, width))
    if result.steps:
        parts.append(_steps(result, terminal, width))
    if refused:
        parts.append("".join(f"{counted(count, 'point')} refused: {one_line(reason)}\n" for reason, count in list(result.refusals.items())[:SHOWN]))
    return "\n".join(parts)


def _front(result: StudyResult, terminal: bool, width: int) -> str:
    study = result.study
    rows = [
        _row(result, point, "as shipped" if point == study.start else "better" if point in result.beaten else "") for point in result.front[:SHOWN]
    ]
    if study.start and study.start not in result.front and study.start in measured(result.found, study.objectives):
        rows.append(_row(result, study.start, "as shipped"))
    names = [axis.name for axis in study.axes]
    text = table_text([*names, *study.objectives, "limit", ""], rows, [*range(len(names)), len(names) + len(study.objectives)], terminal, width)
    left = len(result.front) - SHOWN
    return text + (f"and {counted(left, 'point')} more\n" if left > 0 else "")


def _row(result: StudyResult, point: Point, remark: str) -> list[str]:
    outcome = result.found[point]
    figures = [figure_text(name, outcome.figures.get(name)) for name in result.study.objectives]
    return [*point, *figures, ", ".join(dict.fromkeys(outcome.limits)), remark]


def _steps(result: StudyResult, terminal: bool, width: int) -> str:
    names = result.study.objectives
    rows = [[s.axis, f"{s.first} to {s.then}", *(f"{s.percent[name]:+.1f} %" for name in names), str(s.pairs)] for s in result.steps]
    return table_text(["a step of", "", *names, "pairs"], rows, (0, 1), terminal, width)


def result_sheet(result: StudyResult) -> str:
    """CSV: a line for each point, in the order of the study."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(axis.name for axis in result.study.axes), *OBJECTIVES, "front", "limits", "refused", "reports"])
    best = set(result.front)
    for point, each in result.found.items():
        figures = [f"{each.figures[name]:.9g}" if name in each.figures else "" for name in OBJECTIVES]
        writer.writerow([*point, *figures, int(point in best), " ".join(each.limits), each.refused, " ".join(each.reports)])
    return out.getvalue()


def result_data(result: StudyResult) -> "dict[str, Tree]":
    """As JSON holds it."""
    best = set(result.front)
    return {
        "machine": result.study.machine,
        "models": list(result.study.models),
        "axes": {axis.name: list(axis.values) for axis in result.study.axes},
        "objectives": list(result.study.objectives),
        "points": [_point(result.study, point, each, point in best) for point, each in result.found.items()],
        "steps": [{"axis": s.axis, "from": s.first, "to": s.then, "pairs": s.pairs, "percent": {**s.percent}} for s in result.steps],
    }


def _point(study: Study, point: Point, outcome: Outcome, best: bool) -> "dict[str, Tree]":
    values: dict[str, Tree] = {axis.name: value for axis, value in zip(study.axes, point, strict=True)}
    limits, reports = list(outcome.limits), list(outcome.reports)
    return {"values": values, "figures": {**outcome.figures}, "front": best, "refused": outcome.refused, "limits": limits, "reports": reports}


def reasons_for(result: StudyResult, point: Point) -> Iterator[str]:
    """Why a point is better than the machine as its file has it: the values that differ, and the figures that follow."""
    study = result.study
    if study.start is None:
        return
    base, other = result.found[study.start], result.found[point]
    changed = [f"{axis.name} {a} to {b}" for axis, a, b in zip(study.axes, study.start, point, strict=True) if a != b]
    yield f"{point_text(study, point)}: {', '.join(changed)}"
    for name in OBJECTIVES:
        if base.figures.get(name) and name in other.figures:
            change = f"{100 * (other.figures[name] / base.figures[name] - 1):+.1f}"
            if float(change):
                yield f"{name} {figure_text(name, base.figures[name])} to {figure_text(name, other.figures[name])} ({change} %)"
    if base.limits != other.limits:
        now, before = (", ".join(dict.fromkeys(each.limits)) for each in (other, base))
        yield f"limited by {now}, no longer by {before}"
    if _host_has_more(base, other):
        yield "the host has more to do, and with its part it takes longer: ask for total_ms"


def _host_has_more(base: Outcome, other: Outcome) -> bool:
    """Whether it is quicker only as operations went to the host."""
    ms, total = (other.figures.get(name, 0) - base.figures.get(name, 0) for name in ("ms", "total_ms"))
    return ms < 0 < total


def better_text(result: StudyResult) -> str:
    """A paragraph for each point that is better than the machine as shipped."""
    return "\n".join("better than as shipped: " + "; ".join(reasons_for(result, point)) for point in result.beaten[:SHOWN])


@dataclass(frozen=True)
class Dot:
    """x, y: in the picture. kind: `front`, `shipped` or empty. title: on hover. link: to the point's report, from the page."""

    x: float
    y: float
    kind: str
    title: str
    link: str


def study_page(result: StudyResult, folder: Path, root: Path) -> str:
    """folder: where the page goes. root: of the builds that it links to. Ends in one line feed."""
    names = result.study.objectives
    up, across = names[0], names[min(1, len(names) - 1)]
    dots = list(_dots(result, up, across, os.path.relpath(root, folder)))
    line = " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in sorted(dots, key=lambda dot: dot.x) if "front" in dot.kind)
    return html_environment().get_template("explore.html.j2").render(
        r=result, study=result.study, dots=dots, line=line if len(names) == 2 else "", wide=WIDE, high=HIGH, margin=MARGIN,
        across=_axis_name(across), up=_axis_name(up), xs=list(_ticks(result, across, MARGIN, WIDE - 20)),
        ys=list(_ticks(result, up, HIGH - MARGIN, 20)), figure=figure_text, objectives=OBJECTIVES,
        rows=list(_rows(result, os.path.relpath(root, folder))), reasons=[list(reasons_for(result, point)) for point in result.beaten],
    )  # fmt: skip


def _axis_name(name: str) -> str:
    unit = OBJECTIVES[name].unit
    return f"{name}, {unit}" if unit not in ("", name) else name


def _span(result: StudyResult, name: str) -> tuple[float, float]:
    """Least and largest figure, never the same."""
    values = [each.figures[name] for each in measured(result.found, result.study.objectives).values()] or [0.0]
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1, high + 1)


def _place(value: float, span: tuple[float, float], first: float, last: float) -> float:
    return round(first + (value - span[0]) / (span[1] - span[0]) * (last - first), 1)


def _ticks(result: StudyResult, name: str, first: float, last: float) -> Iterator[tuple[float, str]]:
    span = _span(result, name)
    for number in range(TICKS):
        value = span[0] + (span[1] - span[0]) * number / (TICKS - 1)
        yield _place(value, span, first, last), f"{value:.3g}"


def _dots(result: StudyResult, up: str, across: str, builds: str) -> Iterator[Dot]:
    """Points of the front last, so that they lie on top."""
    best, known = result.front, measured(result.found, result.study.objectives)
    for point in sorted(known, key=lambda point: (point in best, point == result.study.start)):
        outcome = known[point]
        x = _place(outcome.figures[across], _span(result, across), MARGIN, WIDE - 20)
        y = _place(outcome.figures[up], _span(result, up), HIGH - MARGIN, 20)
        kind = "front" * (point in best) + " shipped" * (point == result.study.start)
        figures = ", ".join(f"{name} {figure_text(name, outcome.figures[name])}" for name in result.study.objectives)
        yield Dot(x, y, kind.strip(), f"{point_text(result.study, point)}: {figures}", _link(outcome.reports, builds))


def _link(reports: Sequence[str], builds: str) -> str:
    return f"{builds}/{reports[0]}" if reports else ""


def _rows(result: StudyResult, builds: str) -> Iterator[tuple[Point, bool, list[str], str, str, str]]:
    best = set(result.front)
    for point, each in result.found.items():
        figures = [figure_text(name, each.figures.get(name)) for name in OBJECTIVES]
        yield point, point in best, figures, ", ".join(dict.fromkeys(each.limits)), each.refused, _link(each.reports, builds)
