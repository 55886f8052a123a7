"""A bundle alone: its programs, timed by the model, with their operations and memories, and its results beside those that a file expects."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolchain.accuracy.closeness import output_noise
from toolchain.accuracy.measure import right_share
from toolchain.codegen.binary import read_origins
from toolchain.isa.program import Ints
from toolchain.models.samples import file_arrays
from toolchain.report.region_use import memory_rooms
from toolchain.report.tables import counted, scaled, table_text
from toolchain.report.timeline_data import GraphNode, Legend
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.open_region import region_image
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail, one_line
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline, time_state
from toolchain.verify.built import bundled_schedule

HEAD = ("region", "operation", "kernel", "instructions", "first cycle", "last cycle", "busiest unit", "its cycles", "DRAM bytes")
MEMORIES = ("region", "memory", "read", "written", "in use", "of")


@dataclass(frozen=True)
class ModelledRegion:
    """operations: names by index. owner: int64 [n], the index of each instruction's operation, -1 for none. legend: the same for a page."""

    name: str
    timeline: Timeline
    operations: tuple[str, ...]
    owner: Ints
    legend: Legend

    def instruction(self, stream: int, number: int) -> int:
        """The index of a stream's instruction in the program, -1 for none."""
        first = int(np.searchsorted(self.timeline.program.stream, stream))
        count = int(np.searchsorted(self.timeline.program.stream, stream + 1)) - first
        return first + number if 0 <= number < count else -1


def timed_regions(bundle: Bundle, machines: Mapping[str, Machine]) -> Mapping[str, RegionProgram]:
    """Regions that are programs of a machine's instructions, by name."""
    return {region.name: region for region in bundle.manifest.regions if region.origins and machines[region.target].instructions}


def modelled_region(bundle: Bundle, region: RegionProgram, machine: Machine, place: str) -> ModelledRegion:
    """Times the program. Raises UserError E032x and E03xx for a damaged program, E05xx for one that does not end, E1110 and E14xx for parts of the
    bundle that are none."""
    image = region_image(bundle, region, machine, place)
    schedule = bundled_schedule(bundle, region, place)
    entries = {operation.operation: operation for _, operation in schedule.entries()}
    if set(entries) != set(range(len(entries))):
        raise fail("E1110", f"the schedule of '{region.name}' does not number its operations from 0 on", hint="build the model again", place=place)
    names = tuple(entries[number].name for number in range(len(entries)))
    origins = read_origins(bundle.members[region.origins], len(image.program), len(entries), region.name, place)
    timeline = time_state(image.program, image.map.state(machine, image.constants))
    steps = [" ".join(step).strip() for step in origins.steps]
    pairs = zip(origins.operation.tolist(), origins.step.tolist(), strict=True)
    labels = [f"{names[operation]} {steps[step]}" if operation >= 0 and step >= 0 else "" for operation, step in pairs]
    nodes = tuple(GraphNode(name, entries[number].kernel, ()) for number, name in enumerate(names))
    return ModelledRegion(region.name, timeline, names, origins.operation, Legend(nodes, origins.operation.tolist(), labels))


def bundle_operations(bundle: Bundle, machines: Mapping[str, Machine], place: str, terminal: bool = False, width: int = 120) -> str:
    """A line for each operation of each program, in the order in which they start, and one for each memory; ends in one line feed. Bytes are those of
    a run; in use are those of one instance of a memory that the program touches anywhere. Raises as `modelled_region`."""
    regions = timed_regions(bundle, machines).values()
    timed = [modelled_region(bundle, region, machines[region.target], place) for region in regions]
    if not timed:
        return "no programs of instructions\n"
    rows = [row for region in timed for row in _rows(region)]
    rooms = [row for region in timed for row in _memories(region)]
    tables = ((HEAD, rows, (0, 1, 2, 6)), (MEMORIES, rooms, (0, 1)))
    return "\n".join(table_text(list(head), body, left, terminal, width) for head, body, left in tables)


def _memories(region: ModelledRegion) -> Iterator[list[str]]:
    for room in memory_rooms(region.timeline.footprints):
        kept = [scaled(room.used, "B"), scaled(room.of, "B")] if room.on_chip else ["", ""]
        yield [region.name, room.memory, scaled(room.read, "B"), scaled(room.written, "B"), *kept]


def _rows(region: ModelledRegion) -> Iterator[list[str]]:
    program, result, prints = region.timeline.program, region.timeline.result, region.timeline.footprints
    dram = [number for number, memory in enumerate(program.machine.memories) if memory.kind == "dram"]
    moved = (prints.traffic_read[:, dram] + prints.traffic_written[:, dram]).sum(axis=1)
    mine = {number: np.flatnonzero(region.owner == number) for number in range(len(region.operations))}
    there = {number: index for number, index in mine.items() if len(index)}
    for number, index in sorted(there.items(), key=lambda each: float(result.start[each[1]].min())):
        busy = np.bincount(program.unit[index], (result.end - result.start)[index])
        unit = int(busy.argmax())
        yield [
            region.name, one_line(region.operations[number]), region.legend.nodes[number].kind, f"{len(index):,}",
            f"{result.start[index].min():,.0f}", f"{result.end[index].max():,.0f}", program.machine.units[unit].name, f"{busy[unit]:,.0f}",
            scaled(int(moved[index].sum()), "B"),
        ]  # fmt: skip


LABELS = "labels"


def expected_lines(outputs: Mapping[str, Array], path: Path) -> Iterator[str]:
    """A line for each output that the .npz file has an array for, and one for its array `labels` [samples] of classes, which the first output tells
    by its largest value. outputs: [samples, ...].

    Raises UserError E0001, E0808 for a file with none of them, or with arrays of another shape.
    """
    expected, place = file_arrays(path), str(path)
    known = [name for name in outputs if name in expected]
    if not known and LABELS not in expected:
        hint = f"outputs: {', '.join(map(one_line, outputs))}"
        raise fail("E0808", f"the file has neither an array of an output's name nor '{LABELS}'", hint=hint, place=place)
    yield from (_closeness(name, expected[name], outputs[name], place) for name in known)
    if LABELS in expected and LABELS not in outputs:
        yield _right(outputs, expected[LABELS], place)


def _closeness(name: str, wanted: Array, found: Array, place: str) -> str:
    if wanted.shape != found.shape or wanted.dtype.kind in "OU":
        text = f"'{one_line(name)}' is {wanted.dtype}{list(wanted.shape)}, the results are {found.dtype}{list(found.shape)}"
        raise fail("E0808", text, place=place)
    equal = int((np.equal(wanted, found) | ((wanted != wanted) & (found != found))).sum())  # a NaN is like another
    if equal == found.size:
        return f"{one_line(name)}: all {counted(equal, 'element')} as expected"
    wide = np.asarray(wanted, np.float64), np.asarray(found, np.float64)
    noise = output_noise(*([{name: one} for one in each] for each in wide))
    decibels = f", its worst part {-10 * math.log10(noise):.1f} dB" if noise > 0 else ""
    return f"{one_line(name)}: {equal} of {counted(found.size, 'element')} as expected, the furthest off by {_furthest(*wide):.6g}{decibels}"


def _furthest(wanted: Array, found: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.nanmax(np.abs(wanted - found), initial=0.0))


def _right(outputs: Mapping[str, Array], labels: Array, place: str) -> str:
    name, scores = next(iter(outputs.items()))
    if labels.shape != (len(scores),) or labels.dtype.kind not in "iu":
        raise fail("E0808", f"'{LABELS}' is not one whole number for each of {counted(len(scores), 'sample')}", place=place)
    results: Sequence[Mapping[str, Array]] = [{name: each} for each in scores]
    share = right_share(None, results, labels.tolist())
    assert share is not None
    return f"{LABELS}: {100 * share:.2f} % of {counted(len(scores), 'sample')} right by {one_line(name)}"
