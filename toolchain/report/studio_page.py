"""The studio: a build as a whole on one page, every part drawn and linked by operation, the rooflines of its machines too; and the pages of two
builds as one."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.report.explain_text import ms_text
from toolchain.report.measured_times import headline
from toolchain.report.pictures import (
    BLOCK_TALL,
    BLOCK_WIDE,
    BOX_TALL,
    BOX_WIDE,
    GraphPicture,
    Key,
    MachinePicture,
    graph_picture,
    machine_picture,
    rate_text,
)
from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.report.studio_regions import StudioRegion, group_text, regions_data, slots_text, tile_text
from toolchain.report.summary import Summary
from toolchain.report.summary_text import summary_rows
from toolchain.report.tables import counted, html_environment, scaled
from toolchain.report.timeline_data import script_data
from toolchain.spec.model import Machine
from toolchain.verify.built import Built
from toolchain.verify.verdict import Verified

CHART_WIDE, CHART_TALL, LEFT, FOOT = 640, 300, 56, 36
"""Pixels: the picture, and the room for labels to the left and below."""


@dataclass(frozen=True)
class Dot:
    """An operation. intensity: multiply-accumulates for each byte of DRAM; rate: in each cycle that its unit is busy. x, y: pixels."""

    region: str
    operation: str
    intensity: float
    rate: float
    x: float
    y: float


@dataclass(frozen=True)
class Tick:
    """at: pixels from the left or from above."""

    at: float
    text: str


@dataclass(frozen=True)
class Roofline:
    """roof: path of SVG. bytes: that the link moves in a cycle; link: its name. peak: multiply-accumulates a cycle."""

    dots: tuple[Dot, ...]
    roof: str
    peak: int
    link: str
    bytes: float
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


@dataclass(frozen=True)
class _Scale:
    """Powers of two between which both axes go."""

    x: tuple[int, int]
    y: tuple[int, int]

    def across(self, value: float) -> float:
        return round(LEFT + (CHART_WIDE - LEFT) * (math.log2(value) - self.x[0]) / (self.x[1] - self.x[0]), 2)

    def up(self, value: float) -> float:
        return round((CHART_TALL - FOOT) * (1 - (math.log2(value) - self.y[0]) / (self.y[1] - self.y[0])), 2)


def roofline(machine: Machine, regions: Sequence[RegionUse]) -> Roofline | None:
    """None where the machine's file states no peak or no link, or no operation multiplies and moves DRAM. The device's widest link is taken for
    DRAM's: links of inner levels join memories on chip."""
    links = [link for link in machine.timing.resources if link.scope == "device"]
    links.sort(key=lambda each: (-each.bytes_per_cycle / each.per, each.name))
    points = [(region, use) for region in regions for use in region.operations if use.macs and use.bytes and use.busy > 0]
    peak = machine.timing.peak_macs
    if not (peak and links and points):
        return None
    link = links[0]
    rate = link.bytes_per_cycle / link.per
    scale = _scale(points, peak, rate)
    ridge = min(max(peak / rate, 2.0 ** scale.x[0]), 2.0 ** scale.x[1])
    low = max(2.0 ** scale.x[0] * rate, 2.0 ** scale.y[0])
    roof = f"M{scale.across(low / rate)} {scale.up(low)}L{scale.across(ridge)} {scale.up(peak)}H{CHART_WIDE}"
    dots = tuple(_dots(points, scale))
    return Roofline(dots, roof, peak, link.name, rate, tuple(_ticks(scale.x, scale.across)), tuple(_ticks(scale.y, scale.up)))


def _scale(points: Sequence[tuple[RegionUse, OperationUse]], peak: int, rate: float) -> _Scale:
    across = [math.log2(use.macs / use.bytes) for _, use in points] + [math.log2(peak / rate)]
    up = [math.log2(use.macs / use.busy) for _, use in points] + [math.log2(peak)]
    return _Scale((math.floor(min(across)) - 1, math.ceil(max(across)) + 1), (math.floor(min(up)) - 1, math.ceil(max(up)) + 1))


def _dots(points: Sequence[tuple[RegionUse, OperationUse]], scale: _Scale) -> Iterator[Dot]:
    for region, use in points:
        intensity, rate = use.macs / use.bytes, use.macs / use.busy
        yield Dot(region.region, use.operation, intensity, rate, scale.across(intensity), scale.up(rate))


def _ticks(powers: tuple[int, int], place: Callable[[float], float]) -> Iterator[Tick]:
    step = -(-(powers[1] - powers[0]) // 10)
    for power in range(powers[0], powers[1] + 1, step):
        yield Tick(place(2.0**power), f"{2**power:,}" if power >= 0 else f"1/{2**-power:,}")


SHOWN = 22
"""Letters of a name that a box has room for."""


@dataclass(frozen=True)
class MachineView:
    """picture: its block diagram. rates: of its links, name and text."""

    machine: Machine
    picture: MachinePicture
    rates: tuple[tuple[str, str], ...]
    roofline: Roofline | None


def studio_page(built: Built, summary: Summary, regions: Sequence[StudioRegion], verified: Verified) -> str:
    """Ends in one line feed. summary: with the results of inference and verification. The same build gives the same bytes."""
    environment = html_environment()
    filters: dict[str, Callable[..., str]] = {"ms": ms_text, "headline": headline, "scaled": scaled, "counted": counted, "short": _short}
    environment.filters.update(filters | {"group": group_text, "tile": tile_text, "slots": slots_text})
    graph = graph_picture(built.floating, summary.placement)
    data = {"regions": regions_data(regions), "operations": _operations(graph, summary, regions)}
    return environment.get_template("studio/studio.html.j2").render(
        s=summary, facts=list(summary_rows(summary)), machines=[_machine_view(machine, summary) for machine in built.machines.values()],
        graph=graph, box=(BOX_WIDE, BOX_TALL), size=(BLOCK_WIDE, BLOCK_TALL), regions=regions, data=script_data(data),
        number=group_numbers(regions), link=link_of, noise=[(name, value) for name, value in verified.noise if value is not None],
    )  # fmt: skip


def pair_page(names: Sequence[str], pages: Sequence[str], comparison: str) -> str:
    """names: of the two builds. pages: theirs, HTML. comparison: a page as well. Ends in one line feed; the same pages give the same bytes."""
    named = list(zip(names, pages, strict=True))
    return html_environment().get_template("studio/pair.html.j2").render(names=names, named=named, comparison=comparison)


def link_of(region: str, operation: str) -> str:
    """The name of an operation in links: `region0/conv1`, `/softmax` on the host."""
    return f"{region}/{operation}"


def _short(name: str) -> str:
    """The end of a name says more than its beginning."""
    return name if len(name) <= SHOWN else f"…{name[1 - SHOWN :]}"


def _machine_view(machine: Machine, summary: Summary) -> MachineView:
    rates = tuple((each.name, rate_text(each, machine.timing.clock_khz)) for each in machine.timing.resources)
    return MachineView(machine, machine_picture(machine), rates, roofline(machine, [use for use in summary.regions if use.machine == machine.name]))


def group_numbers(regions: Sequence[StudioRegion]) -> dict[Key, int]:
    """The group of each operation, counted from 0 in its region."""
    return {
        (region.name, operation.name): number
        for region in regions
        for number, group in enumerate(region.schedule.groups)
        for operation in group.operations
    }


def _operations(graph: GraphPicture, summary: Summary, regions: Sequence[StudioRegion]) -> dict[str, dict[str, Any]]:
    """Facts for a reader of each operation, by its link: its region, its index there, and facts by name."""
    uses = {(region.region, use.operation): use for region in summary.regions for use in region.operations}
    costs = {row.name: row for row in summary.costs.rows}
    scheduled = dict(_scheduled(regions))
    measured = {(region.name, times.operation): times for region in regions if region.table for times in region.table.operations}
    index = {(region.name, bound.operation.name): number for region in regions for number, bound in enumerate(region.tested.region.operations)}
    found: dict[str, dict[str, Any]] = {}
    for box in graph.boxes:
        facts = {"computes": box.computes, "result": box.shape, "nodes": ", ".join(box.nodes), "on the host because": box.reason}
        facts |= scheduled.get(box.key, dict[str, str]()) | (_use_facts(uses[box.key]) if box.key in uses else dict[str, str]())
        if times := measured.get(box.key):
            facts["measured"] = f"{times.measured:,.0f} cycles, {times.modelled:,.0f} by the model; starts {times.later:+,.0f} cycles from it"
        if not box.key[0] and box.nodes[0] in costs:
            facts["time"] = f"{ms_text(costs[box.nodes[0]].ms)} ms on the host"
        place = {"region": box.key[0], "index": index.get(box.key, -1), "name": box.key[1]}
        found[link_of(*box.key)] = place | {"facts": {name: text for name, text in facts.items() if text}}
    return found


def _scheduled(regions: Sequence[StudioRegion]) -> Iterator[tuple[Key, dict[str, str]]]:
    for region in regions:
        kept = {buffer.tensor: buffer for buffer in region.schedule.buffers}
        made = {bound.operation.name: bound.tensors["y"] for bound in region.tested.region.operations}
        for number, group in enumerate(region.schedule.groups):
            for each in group.operations:
                facts = {"group": f"{number}: {group_text(group)}", "kernel": each.kernel, "tile": tile_text(each), "slots": slots_text(each)}
                if buffer := kept.get(made.get(each.name, "")):
                    stored = "stored to DRAM as well" if buffer.stored else "not stored to DRAM"
                    facts["buffer"] = f"{buffer.tensor} stays in {buffer.memory}{', a ring of rows' if buffer.pitch else ''}, {stored}"
                yield (region.name, each.name), facts


def _use_facts(use: OperationUse) -> dict[str, str]:
    return {
        "time": f"{use.cycles:,.0f} cycles; {use.unit} busy for {use.busy:,.0f}",
        "work": f"{scaled(use.macs, 'MAC')} in {use.instructions} instructions",
        "DRAM": f"{scaled(use.bytes, 'B')} moved",
    }  # fmt: skip
