"""The timeline of a program as one self-contained HTML page: units over time, operations beside them, memory occupancy below."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from toolchain.isa.assembly.disassembler import disassemble_blocks
from toolchain.isa.footprint.text import comment, controlled
from toolchain.schedule.regions.region import Region
from toolchain.spec.files import write_atomic
from toolchain.timing.simulate import Timeline
from toolchain.timing.trace import delay_reasons, occupancy, place_of
from toolchain.timing.usage import summarise
from toolchain.verify.built import ProgramUnderTest

TEMPLATES = Path(__file__).resolve().parents[1] / "templates" / "timeline"
DIGITS = 3
"""Decimals of a cycle that are kept."""


@dataclass(frozen=True)
class Node:
    """An operation of the graph beside the timeline. reads: indices of the operations whose results it reads."""

    name: str
    kind: str
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Legend:
    """The purpose of a program's instructions. owner: index in `nodes`, -1 for none; label: its step and tile; one entry an instruction."""

    nodes: tuple[Node, ...] = ()
    owner: Sequence[int] = ()
    label: Sequence[str] = ()


def region_legend(tested: ProgramUnderTest) -> Legend:
    return Legend(tuple(_nodes(tested.region)), tested.owner.tolist(), tested.listing)


def write_timeline_page(path: Path, title: str, timeline: Timeline, legend: Legend | None = None) -> None:
    """Writes the page, whole or not at all. legend: None for a program without operations. Raises UserError E0005.

    A title may come from the name of a file, which need not be UTF-8.
    """
    write_atomic(path, timeline_page(title, timeline, legend or Legend()).encode(errors="replace"))


def timeline_page(title: str, timeline: Timeline, legend: Legend) -> str:
    """A page with everything in it, the script included; times in cycles of the machine's clock. It loads nothing from a network."""
    environment = Environment(loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, autoescape=True)
    environment.keep_trailing_newline = True
    data = json.dumps(page_data(title, timeline, legend), separators=(",", ":")).replace("<", "\\u003c")
    return environment.get_template("timeline.html.j2").render(title=title, data=Markup(data))


def page_data(title: str, timeline: Timeline, legend: Legend) -> dict[str, Any]:
    """Everything that the script reads. Columns have one entry an instruction, in the order of the program."""
    program, machine = timeline.program, timeline.program.machine
    lanes, lane = np.unique(program.stream * len(machine.units) + program.unit, return_inverse=True)
    labels, label = _numbered(legend.label or [""] * len(program))
    columns = {"lane": lane.tolist(), "label": label, "operation": list(legend.owner) or [-1] * len(program)}
    return {
        "title": title, "machine": machine.name, "khz": machine.timing.clock_khz, "cycles": round(timeline.cycles, DIGITS),
        "kinds": [instruction.name for instruction in machine.instructions], "lanes": [_lane(timeline, int(number)) for number in lanes],
        "operations": [{"name": node.name, "kind": node.kind, "reads": node.reads} for node in legend.nodes],
        "labels": labels, "columns": dict(_columns(timeline)) | columns, "causes": _causes(timeline), "memories": list(_memories(timeline)),
        "bounds": _bounds(timeline),
    }  # fmt: skip


def _columns(timeline: Timeline) -> Iterator[tuple[str, list[Any]]]:
    program, result = timeline.program, timeline.result
    for name, column in (("start", result.start), ("end", result.end), ("released", result.released), ("waited", timeline.waited)):
        yield name, [int(value) if value.is_integer() else value for value in np.round(column, DIGITS).tolist()]
    yield "kind", program.kind.tolist()
    yield "producer", result.producer.tolist()
    yield "text", [line for block in disassemble_blocks(program) for line in block.splitlines() if not line.startswith(".stream")]
    unknown = controlled(program.machine)
    yield "footprint", [comment(timeline.footprints, index, unknown) for index in range(len(program))]


def _numbered(texts: Sequence[str]) -> tuple[list[str], list[int]]:
    """Each text once, and the number of every text."""
    number = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return list(number), [number[text] for text in texts]


def _lane(timeline: Timeline, number: int) -> str:
    machine = timeline.program.machine
    stream, unit = divmod(number, len(machine.units))
    name = machine.units[unit].name
    return f"{place_of(timeline.program, stream)} {name}" if machine.streams > 1 else name


def _causes(timeline: Timeline) -> dict[int, list[str]]:
    """Why an instruction came late, took longer or kept its unit; only instructions with a cause have an entry."""
    late = np.flatnonzero((timeline.waited > 0) | (timeline.contended > 0) | (timeline.held > 0))
    return {index: [f"{name} {text}" for name, text in delay_reasons(timeline, index)] for index in late.tolist()}


def _memories(timeline: Timeline) -> Iterator[Mapping[str, Any]]:
    for found in occupancy(timeline):
        points = [np.round(column, DIGITS).tolist() for column in (found.cycles, found.bytes)]
        yield {"name": found.memory, "capacity": found.capacity, "block": found.block, "cycles": points[0], "bytes": points[1]}


def _bounds(timeline: Timeline) -> dict[str, Any]:
    found = summarise(timeline)
    assumed = [f"{basis.name} = {basis.value}" for basis in found.constants if basis.assumed and basis.value is not None]
    return {"cycles": round(found.bound_cycles, DIGITS), "by": found.bound_by, "assumed": assumed}


def _nodes(region: Region) -> Iterator[Node]:
    """Operations in their order; a tensor that a concat puts together is read from all who make its parts."""
    makers: dict[str, list[int]] = {}
    for number, bound in enumerate(region.operations):
        tensor: str | None = bound.tensors["y"]
        while tensor is not None:
            makers.setdefault(tensor, []).append(number)
            tensor = region.slices[tensor].parent if tensor in region.slices else None
    for number, bound in enumerate(region.operations):
        read = {maker for name, tensor in bound.tensors.items() if name != "y" for maker in makers.get(tensor, ()) if maker != number}
        yield Node(bound.operation.name, bound.operation.kind.name, tuple(sorted(read)))
