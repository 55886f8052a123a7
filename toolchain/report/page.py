"""A report as one self-contained page of HTML, with the run of its plan as a line of time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jinja2 import Environment
from markupsafe import Markup, escape

from toolchain.accuracy.closeness import LEAST, Inference
from toolchain.graph.quantisation.ranges import MADE_UP, calibration_text
from toolchain.report.explain import nodes_text
from toolchain.report.explain_text import ms_text, percent, time_parts
from toolchain.report.summary import Summary
from toolchain.report.summary_text import is_judged, summary_rows, warnings_of
from toolchain.report.tables import counted, html_environment, scaled, share_text
from toolchain.runtime.contents import Manifest
from toolchain.runtime.timing import region_times, samples_of, segment_ms
from toolchain.spec.model import Machine
from toolchain.verify.verdict import Verified

HOST, BORDER, MACHINE = "host", "border", "machine"
LANES = (HOST, BORDER, MACHINE)


@dataclass(frozen=True)
class RunSpan:
    """name: of the region, or the tensors that a host segment makes. start, ms: milliseconds from the start of the run."""

    lane: str
    name: str
    start: float
    ms: float


def plan_line(machines: Mapping[str, Machine], manifest: Manifest) -> tuple[RunSpan, ...]:
    """In the order of the plan, by the machine's declared costs, end to end: the end of the last is the time of the run."""
    spans: list[RunSpan] = []
    at = 0.0
    for lane, name, ms in _steps(machines, manifest):
        spans.append(RunSpan(lane, name, at, ms))
        at += ms
    return tuple(spans)


def _steps(machines: Mapping[str, Machine], manifest: Manifest) -> Iterator[tuple[str, str, float]]:
    samples, times, priced = samples_of(manifest.regions), region_times(machines, manifest), next(iter(machines.values())).host
    for step in manifest.plan:
        if step.kind == "region":
            region = manifest.regions[step.index]
            time = times[region.name]
            yield BORDER, region.name, time.transfer_ms + (time.launch_ms or 0.0)
            yield MACHINE, region.name, time.execute_ms
        else:
            segment = manifest.hosts[step.index]
            yield HOST, ", ".join(segment.outputs), samples * segment_ms(segment, priced) if priced else 0.0


OPEN, NODES, WORST = 25, 6, 20
"""Rows of a table that are open when the page is, names of nodes, and tensors that are shown of the worst."""
WIDE, LANE = 1000.0, 26
"""The width of the picture of a run and the height of a lane, in its own units."""
THIN = 0.25
"""Spans narrower than this would not be seen: they are drawn this wide."""
SILENT = 60.0
"""Signal to noise in dB that fills a bar."""


@dataclass(frozen=True)
class Card:
    """A figure with its name and meaning. bad: whether it is one to worry about."""

    name: str
    value: str
    meaning: str
    bad: bool = False


@dataclass(frozen=True)
class Bar:
    """A part of the picture: x and width in its units."""

    lane: str
    x: float
    y: float
    width: float
    title: str


def report_page(summary: Summary, line: Sequence[RunSpan], inferred: Inference, verified: Verified, timelines: Sequence[str] = ()) -> str:
    """Ends in one line feed. line: of a run. inferred, verified: results of the tasks of these names. timelines: regions with a page of their own
    beside this one."""
    costs, template = summary.costs, _environment(summary.costs.total_ms).get_template("report.html.j2")
    return template.render(
        s=summary, costs=costs, facts=list(summary_rows(summary)), parts=time_parts(costs), warnings=list(_warnings(summary)),
        cards=list(_cards(summary)), bars=list(_bars(line)), lanes=LANES, lane=LANE, wide=WIDE, total=costs.total_ms, open=OPEN,
        task=inferred.task.get("emulator"), longest=max((row.ms for row in costs.rows), default=0.0) or 1.0, worst=_worst(verified), silent=SILENT,
        timelines=timelines,
        operations=[(region.region, use) for region in summary.regions for use in region.operations],
    )  # fmt: skip


def _environment(total: float) -> Environment:
    """total: milliseconds that shares are of."""
    made = html_environment()
    filters: dict[str, Callable[..., str]] = {"ms": ms_text, "scaled": scaled, "counted": counted}
    filters |= {
        "code": _code,
        "peak": partial(share_text, digits=1),
        "names": partial(nodes_text, shown=NODES),
        "share": partial(percent, whole=total),
    }
    made.filters.update(filters)
    return made


def _code(text: str) -> Markup:
    """Text with the parts between backquotes as code; everything is escaped."""
    return Markup().join(Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(text.split("`")))


def _cards(s: Summary) -> Iterator[Card]:
    """The figures that a reader looks for first."""
    placed = s.placement
    yield Card("time", f"{ms_text(s.costs.total_ms)} ms", f"for {s.images} images" if s.images > 1 else "for one image")
    yield Card("machine alone", f"{ms_text(s.time.execute_ms)} ms", f"{s.frames_per_second:,.1f} frames/s")
    yield Card("on the machine", f"{placed.mac_percent:.1f} %", f"of {scaled(placed.macs, 'MAC')}, in {counted(len(s.regions), 'region')}")
    way = "as far as the machine's file allows" if s.allowed else "bit for bit"
    if s.regions:
        yield Card("exact", ("near" if s.allowed else "yes") if s.exact else "NO", f"{s.tensors} tensors compared, {way}", not s.exact)
    found = [output.worst for output in s.closeness.outputs.values() if output.worst is not None] if s.closeness else []
    if s.closeness:
        worst = min(found, default=SILENT)
        yield Card(
            "outputs",
            f"{worst:.1f} dB" if found else "no noise",
            "integers against the file in floating point",
            worst < LEAST and is_judged(s),
        )


def _warnings(s: Summary) -> Iterator[str]:
    if s.exact is False:
        yield "What the machine computes is not what the integer model computes: see `verify`."
    yield from warnings_of(s)
    yield from (each.text for each in s.remarks)
    if s.calibration == MADE_UP:
        yield f"Calibrated {calibration_text(s.calibration)}."


def _bars(line: Sequence[RunSpan]) -> Iterator[Bar]:
    end = line[-1].start + line[-1].ms if line else 0.0
    for span in line:
        if span.ms > 0:
            width = max(WIDE * span.ms / end, THIN)
            title = f"{span.name}: {ms_text(span.ms)} ms on the {span.lane}, from {ms_text(span.start)} ms"
            yield Bar(span.lane, round(min(WIDE * span.start / end, WIDE - width), 3), LANES.index(span.lane) * LANE, round(width, 3), title)


def _worst(verified: Verified) -> list[tuple[str, float]]:
    """The tensors with most noise: name, dB."""
    return [(tensor, sqnr) for tensor, sqnr in verified.noise if sqnr is not None][:WORST]
