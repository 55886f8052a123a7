"""A study as one self-contained page: the front drawn, each point with its parameters and a link to its report."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.explore.front import measured
from toolchain.explore.session import figure_text
from toolchain.explore.study import OBJECTIVES, Point, point_text
from toolchain.explore.text import Result, reasons_for
from toolchain.report.html import html_environment

WIDE, HIGH, MARGIN = 900, 480, 60
"""The picture in its own units."""
TICKS = 5


@dataclass(frozen=True)
class Dot:
    """x, y: in the picture. kind: `front`, `shipped` or empty. title: on hover. link: to the point's report, from the page."""

    x: float
    y: float
    kind: str
    title: str
    link: str


def study_page(result: Result, folder: Path, root: Path) -> str:
    """folder: where the page goes. root: of the builds that it links to. Ends in one line feed."""
    names = result.study.objectives
    across, up = names[-1], names[0]
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
    return f"{name}, {unit}" if unit else name


def _span(result: Result, name: str) -> tuple[float, float]:
    """Least and largest figure, never the same."""
    values = [each.figures[name] for each in measured(result.found, result.study.objectives).values()] or [0.0]
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1, high + 1)


def _place(value: float, span: tuple[float, float], first: float, last: float) -> float:
    return round(first + (value - span[0]) / (span[1] - span[0]) * (last - first), 1)


def _ticks(result: Result, name: str, first: float, last: float) -> Iterator[tuple[float, str]]:
    span = _span(result, name)
    for number in range(TICKS):
        value = span[0] + (span[1] - span[0]) * number / (TICKS - 1)
        yield _place(value, span, first, last), f"{value:.3g}"


def _dots(result: Result, up: str, across: str, builds: str) -> Iterator[Dot]:
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


def _rows(result: Result, builds: str) -> Iterator[tuple[Point, bool, list[str], str, str, str]]:
    best = set(result.front)
    for point, each in result.found.items():
        figures = [figure_text(name, each.figures.get(name)) for name in OBJECTIVES]
        yield point, point in best, figures, ", ".join(dict.fromkeys(each.limits)), each.refused, _link(each.reports, builds)
