"""The timeline of a program as one self-contained HTML page, units over time, operations beside them, memory occupancy below, and its data in the
form that the page's script reads: packed columns, lanes, operations, memories."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from toolchain.isa.assembly import disassemble_blocks
from toolchain.isa.footprint.text import comment, controlled
from toolchain.isa.program import Ints
from toolchain.report.tables import html_environment
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array
from toolchain.spec.files import write_atomic
from toolchain.timing.event_run import Times
from toolchain.timing.simulate import Timeline
from toolchain.timing.trace import delay_reasons, occupancy, place_of
from toolchain.timing.usage import summarise
from toolchain.verify.built import ProgramUnderTest

DIGITS = 3
"""Decimals of a cycle that are kept."""
MOST_LISTED = 100_000
"""Instructions whose assembly and memory ranges a page has room for: some 250 bytes each."""

Packed = dict[str, Any]
"""A column for the script: `type` (i1, i2, i4, f4 or f8) and its little-endian numbers in base64, `data`. With a further column `of`, the numbers are
indices of its values."""


def packed(values: Array) -> Packed:
    """In the least room: integers by their range, and few distinct values once each, in ascending order."""
    values = _least(values)
    table, index = np.unique(values, return_inverse=True)
    index = _least(index)
    if index.nbytes + table.nbytes >= values.nbytes:
        return _plain(values)
    return _plain(index) | {"of": _plain(table)}


def _least(values: Array) -> Array:
    """Integers in the smallest type that holds them; larger ones than a script has as float64."""
    if values.dtype.kind == "f":
        return values
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    sizes = (np.int8, np.int16, np.int32)
    return values.astype(next((size for size in sizes if np.iinfo(size).min <= low and high <= np.iinfo(size).max), np.float64))


def steps(times: Times) -> Ints:
    """Thousandths of a cycle from each time to the next, from 0 to the first; few distinct numbers, unlike times. int64 [n]."""
    return np.diff(np.rint(times * 10**DIGITS).astype(np.int64), prepend=0)


def _plain(values: Array) -> Packed:
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"type": f"{values.dtype.kind}{values.dtype.itemsize}", "data": base64.b64encode(little.tobytes()).decode()}


@dataclass(frozen=True)
class GraphNode:
    """An operation of the graph beside the timeline. reads: indices of the operations whose results it reads."""

    name: str
    kind: str
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Legend:
    """The purpose of a program's instructions. owner: index in `nodes`, -1 for none; label: its step and tile; one entry an instruction."""

    nodes: tuple[GraphNode, ...] = ()
    owner: Sequence[int] = ()
    label: Sequence[str] = ()


@dataclass(frozen=True)
class Overlay:
    """Instructions as a device ran them, drawn in lanes of their own. index: int64 [k], which ones; start, end: float64 [k], on the model's clock."""

    index: Ints
    start: Times
    end: Times


def region_legend(tested: ProgramUnderTest) -> Legend:
    return Legend(tuple(_nodes(tested.region)), tested.owner.tolist(), tested.listing)


def page_data(title: str, timeline: Timeline, legend: Legend, most_listed: int = MOST_LISTED, overlay: Overlay | None = None) -> dict[str, Any]:
    """Everything that the script reads. Columns have one entry an instruction, in the order of the program, and behind them one for each of the
    overlay; assembly, memory ranges and causes of waiting are left out of a program with more than `most_listed` instructions."""
    program, machine = timeline.program, timeline.program.machine
    drawn = overlay or Overlay(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    lanes, lane = np.unique(program.stream * len(machine.units) + program.unit, return_inverse=True)
    labels, label = _numbered(legend.label or [""] * len(program))
    owner = np.asarray(legend.owner if len(legend.owner) else [-1] * len(program), np.int64)
    lane = np.concatenate([lane, len(lanes) + lane[drawn.index]])
    columns = {
        "lane": packed(lane),
        "step": packed(_lane_steps(timeline, lane, drawn)),
        "label": packed(_twice(np.asarray(label, np.int64), drawn)),
        "operation": packed(_twice(owner, drawn)),
    }
    named = [_lane(timeline, int(number)) for number in lanes]
    return {
        "title": title, "machine": machine.name, "khz": machine.timing.clock_khz,
        "cycles": round(max(timeline.cycles, float(drawn.end.max(initial=0.0))), DIGITS),
        "kinds": [instruction.name for instruction in machine.instructions],
        "lanes": [*_placed(named, "modelled"), *_placed(named, "measured")] if overlay else named,
        "operations": [{"name": node.name, "kind": node.kind, "reads": node.reads} for node in legend.nodes],
        "labels": labels, "columns": dict(_columns(timeline, drawn)) | columns, "memories": list(_memories(timeline)),
        "bounds": _bounds(timeline), **(_listing(timeline, drawn) if len(program) <= most_listed else {"causes": {}}),
    }  # fmt: skip


def _twice(column: Array, drawn: Overlay) -> Array:
    """An entry for each instruction, and for those of the overlay again."""
    return np.concatenate([column, column[drawn.index]])


def _placed(lanes: Sequence[tuple[str, str]], where: str) -> list[tuple[str, str, str]]:
    """The lanes of a program and of its overlay are places of their own, and say which they are."""
    return [(f"{place} {where}".strip(), name, where) for place, name in lanes]


def _lane_steps(timeline: Timeline, lane: Ints, drawn: Overlay) -> Ints:
    """Steps between the starts of the instructions of each lane."""
    start, found = np.concatenate([timeline.result.start, drawn.start]), np.zeros(len(lane), np.int64)
    for number in np.unique(lane):
        found[lane == number] = steps(start[lane == number])
    return found


def _columns(timeline: Timeline, drawn: Overlay) -> Iterator[tuple[str, Packed]]:
    """Cycles as float32, which lengths and waiting are short enough for. back: to the instruction that it waited for, 0 for none."""
    program, result, none = timeline.program, timeline.result, np.zeros(len(drawn.index))
    for name, column in (
        ("length", np.concatenate([result.end - result.start, drawn.end - drawn.start])),
        ("held", np.concatenate([timeline.held, none])),
        ("waited", np.concatenate([timeline.waited, none])),
    ):
        yield name, packed(np.round(column, DIGITS).astype(np.float32))
    yield "kind", packed(_twice(program.kind, drawn))
    back = np.where(result.producer < 0, 0, np.arange(len(program)) - result.producer)
    yield "back", packed(np.concatenate([back, np.zeros(len(drawn.index), np.int64)]))


def _listing(timeline: Timeline, drawn: Overlay) -> dict[str, Any]:
    """The assembly of each instruction, the ranges that it reads and writes, and why it was late."""
    program = timeline.program
    unknown, again = controlled(program.machine), drawn.index.tolist()
    text = [line for block in disassemble_blocks(program) for line in block.splitlines() if not line.startswith(".stream")]
    footprint = [comment(timeline.footprints, index, unknown) for index in range(len(program))]
    late = (drawn.start - timeline.result.start[drawn.index]).tolist()
    measured = {len(program) + row: [f"measured: starts {each:+,.0f} cycles from the model"] for row, each in enumerate(late)}
    return {
        "text": text + [text[index] for index in again],
        "footprint": footprint + [footprint[index] for index in again],
        "causes": _causes(timeline) | measured,
    }


def _numbered(texts: Sequence[str]) -> tuple[list[str], list[int]]:
    """Each text once, and the number of every text."""
    number = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return list(number), [number[text] for text in texts]


def _lane(timeline: Timeline, number: int) -> tuple[str, str]:
    """The place of a unit, empty where there is one stream, and its name."""
    machine = timeline.program.machine
    stream, unit = divmod(number, len(machine.units))
    return place_of(timeline.program, stream) if machine.streams > 1 else "", machine.units[unit].name


def _causes(timeline: Timeline) -> dict[int, list[str]]:
    """Why an instruction came late, took longer or kept its unit; only instructions with a cause have an entry."""
    late = np.flatnonzero((timeline.waited > 0) | (timeline.contended > 0) | (timeline.held > 0))
    return {index: [f"{name} {text}" for name, text in delay_reasons(timeline, index)] for index in late.tolist()}


def _memories(timeline: Timeline) -> Iterator[Mapping[str, Any]]:
    for found in occupancy(timeline):
        points = {"step": packed(steps(found.cycles)), "bytes": packed(np.round(found.bytes, DIGITS))}
        yield {"name": found.memory, "capacity": found.capacity, "block": found.block, **points}


def _bounds(timeline: Timeline) -> dict[str, Any]:
    found = summarise(timeline)
    assumed = [f"{basis.name} = {basis.value}" for basis in found.constants if basis.assumed and basis.value is not None]
    return {"cycles": round(found.bound_cycles, DIGITS), "by": found.bound_by, "assumed": assumed}


def _nodes(region: Region) -> Iterator[GraphNode]:
    """Operations in their order; a tensor that a concat puts together is read from all who make its parts."""
    makers: dict[str, list[int]] = {}
    for number, bound in enumerate(region.operations):
        tensor: str | None = bound.tensors["y"]
        while tensor is not None:
            makers.setdefault(tensor, []).append(number)
            tensor = region.slices[tensor].parent if tensor in region.slices else None
    for number, bound in enumerate(region.operations):
        read = {maker for name, tensor in bound.tensors.items() if name != "y" for maker in makers.get(tensor, ()) if maker != number}
        yield GraphNode(bound.operation.name, bound.operation.kind.name, tuple(sorted(read)))


def write_timeline_page(path: Path, title: str, timeline: Timeline, legend: Legend | None = None, overlay: Overlay | None = None) -> None:
    """Writes the page, whole or not at all. legend: None for a program without operations. overlay: measured times. Raises UserError E0005.

    A title may come from the name of a file, which need not be UTF-8.
    """
    write_atomic(path, timeline_page(title, timeline, legend or Legend(), overlay).encode(errors="replace"))


def timeline_page(title: str, timeline: Timeline, legend: Legend, overlay: Overlay | None = None) -> str:
    """A page with everything in it, the script included; times in cycles of the machine's clock. It loads nothing from a network."""
    return (
        html_environment()
        .get_template("timeline/timeline.html.j2")
        .render(title=title, data=script_data(page_data(title, timeline, legend, overlay=overlay)))
    )


def script_data(data: Any) -> Markup:
    """JSON for an element `script` of its own, which no text inside can end."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
