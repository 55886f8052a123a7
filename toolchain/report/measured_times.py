"""Measured times beside modelled ones: by operation, where the difference between the two grows, as lanes of a timeline, and as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.isa.program import Ints
from toolchain.report.bundles import ModelledRegion
from toolchain.report.device_profile import Event, Profile
from toolchain.report.tables import counted, table_text
from toolchain.report.timeline_data import Overlay
from toolchain.spec.errors import fail, nearest, one_line
from toolchain.timing.timeline import Times


@dataclass(frozen=True)
class Measured:
    """Spans on the model's clock, in cycles, in the order of the file. index: int64 [k], the instruction, or the operation where `whole`.
    end: NaN where it was not measured. offset: the measured time that is the model's 0. counters: float64 [k, names]."""

    whole: bool
    index: Ints
    start: Times
    end: Times
    offset: float
    counters: Times


@dataclass(frozen=True)
class OperationTimes:
    """modelled, measured: cycles from its first start to its last end, or to its last start where no ends were measured. later: cycles by which it
    starts after the model's. counters: summed up."""

    operation: str
    spans: int
    modelled: float
    measured: float
    later: float
    counters: tuple[float, ...]


@dataclass(frozen=True)
class Deviation:
    """An instruction, or operation, by which its unit fell behind the model, in cycles (`lost`; negative: caught up), since the one before it there.
    modelled, measured: its start."""

    name: str
    operation: str
    unit: str
    modelled: float
    measured: float
    lost: float


@dataclass(frozen=True)
class Beside:
    """A region measured. of: instructions or operations that could have been. cycles: of the whole, from the first start to the last end known."""

    region: str
    machine: str
    khz: int
    whole: bool
    spans: int
    of: int
    ends: bool
    offset: float
    modelled: float
    measured: float
    counters: tuple[str, ...]
    operations: tuple[OperationTimes, ...]
    deviations: tuple[Deviation, ...]


SMALLEST = 0.5
"""Cycles that count as a deviation."""


def measured_spans(profile: Profile, events: Sequence[Event], region: ModelledRegion) -> Measured:
    """The model's 0 is put where the span that was measured first begins as in the model.

    Raises UserError E1128 for an instruction or operation that the program has not, or that is there twice.
    """
    whole = bool(events[0].operation) or events[0].instruction < 0
    index = np.array([_index(profile, event, region, whole) for event in events], np.int64)
    _, first, count = np.unique(index, return_index=True, return_counts=True)
    if (count > 1).any():
        number = int(index[first[np.argmax(count > 1)]])
        again = events[int(np.flatnonzero(index == number)[1])]
        raise fail("E1128", "this was timed twice in one profile", profile.span(again), "a profile is of one run of the program")
    factor = 1.0 if profile.unit == "cycles" else region.timeline.program.machine.timing.clock_khz / 1e6
    start = np.array([event.start for event in events]) * factor
    end = np.array([np.nan if event.end is None else event.end for event in events]) * factor
    earliest = int(np.argmin(start))
    offset = float(start[earliest] - _modelled(region, whole)[0][index[earliest]])
    return Measured(whole, index, start - offset, end - offset, offset, np.array([event.counters for event in events], np.float64))


def _index(profile: Profile, event: Event, region: ModelledRegion, whole: bool) -> int:
    if whole:
        if event.operation not in region.operations:
            text = f"'{region.name}' has no operation '{event.operation[:40]}'"
            raise fail("E1128", text, profile.span(event), nearest(event.operation, region.operations))
        return region.operations.index(event.operation)
    found = region.instruction(event.stream, event.instruction)
    if found < 0:
        raise fail("E1128", f"'{region.name}' has no instruction {event.instruction} in stream {event.stream}", profile.span(event))
    return found


def _modelled(region: ModelledRegion, whole: bool) -> tuple[Times, Times]:
    """Starts and ends of all instructions, or of all operations, in cycles; NaN for an operation without instructions."""
    result = region.timeline.result
    if not whole:
        return result.start, result.end
    mine = [np.flatnonzero(region.owner == number) for number in range(len(region.operations))]
    return (
        np.array([result.start[each].min() if len(each) else np.nan for each in mine]),
        np.array([result.end[each].max() if len(each) else np.nan for each in mine]),
    )


def beside(profile: Profile, measured: Measured, region: ModelledRegion) -> Beside:
    """The table of a region."""
    program = region.timeline.program
    start, end = _modelled(region, measured.whole)
    ends = not bool(np.isnan(measured.end).any())
    last, modelled_last = (measured.end, end) if ends else (measured.start, start)
    index = measured.index
    return Beside(
        region.name, program.machine.name, program.machine.timing.clock_khz, measured.whole, len(index),
        len(region.operations) if measured.whole else len(program), ends, measured.offset,
        float(np.nanmax(modelled_last[index]) - np.nanmin(start[index])), float(last.max() - measured.start.min()), profile.counters,
        tuple(_operations(measured, region, start, modelled_last, last)), tuple(_deviations(measured, region, start)),
    )  # fmt: skip


def _operations(measured: Measured, region: ModelledRegion, start: Times, modelled_last: Times, last: Times) -> Iterator[OperationTimes]:
    """In the order in which they start in the model; those of which nothing was measured are left out."""
    owner = measured.index if measured.whole else region.owner[measured.index]
    found = list[tuple[float, OperationTimes]]()
    for number in map(int, np.unique(owner[owner >= 0])):
        rows = np.flatnonzero(owner == number)
        mine = measured.index[rows]
        first = float(start[mine].min())
        spans = float(modelled_last[mine].max()) - first, float(last[rows].max() - measured.start[rows].min())
        counters = tuple(float(total) for total in measured.counters[rows].sum(axis=0))
        later = float(measured.start[rows].min()) - first
        found.append((first, OperationTimes(region.operations[number], len(rows), *spans, later, counters)))
    yield from (times for _, times in sorted(found, key=lambda each: each[0]))


def _deviations(measured: Measured, region: ModelledRegion, start: Times) -> Iterator[Deviation]:
    """Deviations of at least SMALLEST, the largest first."""
    program = region.timeline.program
    lane = np.zeros(len(measured.index), np.int64) if measured.whole else program.queue[measured.index]
    late = measured.start - start[measured.index]
    order = np.lexsort((start[measured.index], lane))
    before = np.where(np.append(True, lane[order][1:] != lane[order][:-1]), 0.0, np.append(0.0, late[order][:-1]))
    lost = np.empty(len(order))
    lost[order] = late[order] - before
    for row in np.argsort(-np.abs(lost), kind="stable").tolist():
        if abs(lost[row]) < SMALLEST:
            return
        number = int(measured.index[row])
        times = float(start[number]), float(measured.start[row]), float(lost[row])
        if measured.whole:
            yield Deviation(region.operations[number], region.operations[number], "", *times)
        else:
            owner, kind = int(region.owner[number]), program.machine.instructions[int(program.kind[number])].name
            name = f"#{number} {kind}"
            unit = program.machine.units[int(program.unit[number])].name
            yield Deviation(name, region.operations[owner] if owner >= 0 else "", unit, *times)


def overlay(region: ModelledRegion, measured: Measured) -> Overlay:
    """An instruction whose end was not measured is drawn as long as in the model; an operation is drawn by its instructions, moved and stretched
    evenly between its own ends."""
    result = region.timeline.result
    if not measured.whole:
        length = (result.end - result.start)[measured.index]
        return Overlay(measured.index, measured.start, np.where(np.isnan(measured.end), measured.start + length, measured.end))
    parts = list[tuple[Ints, Times, Times]]()
    for number, start, end in zip(measured.index.tolist(), measured.start, measured.end, strict=True):
        mine = np.flatnonzero(region.owner == number)
        first, last = result.start[mine].min(initial=np.inf), result.end[mine].max(initial=-np.inf)
        stretch = 1.0 if np.isnan(end) or last <= first else (end - start) / (last - first)
        parts.append((mine, start + (result.start[mine] - first) * stretch, start + (result.end[mine] - first) * stretch))
    return Overlay(*(np.concatenate(column) for column in zip(*parts, strict=True)))


SHOWN = 10
"""Deviations that a terminal shows; the JSON has all."""


def profile_text(found: Beside, terminal: bool = False, width: int = 120) -> str:
    """Ends in one line feed. terminal: with ruled tables of at most `width` characters."""
    head = ["operation", "measured", "modelled", "cycles", "ratio", "starts later", *found.counters]
    rows = [
        [
            one_line(each.operation), str(each.spans), f"{each.modelled:,.0f}", f"{each.measured:,.0f}",
            f"{each.measured / each.modelled:.3f}" if each.modelled else "-", f"{each.later:+,.0f}", *(f"{value:,.6g}" for value in each.counters),
        ]
        for each in found.operations
    ]  # fmt: skip
    return f"{headline(found)}\n\n{table_text(head, rows, (0,), terminal, width)}\n{_deviation_lines(found, terminal, width)}"


def headline(found: Beside) -> str:
    """One line: how much was measured, and the whole beside the model."""
    what = "operation" if found.whole else "instruction"
    known = "" if found.ends else ", starts alone"
    ratio = f", ratio {found.measured / found.modelled:.4f}" if found.modelled else ""
    return (
        f"{found.region} on {found.machine}: {found.spans} of {counted(found.of, what)} measured{known}; "
        f"{found.measured:,.0f} cycles, {found.modelled:,.0f} by the model{ratio}; its clock shows {found.offset:,.0f} at the model's 0"
    )


def _deviation_lines(found: Beside, terminal: bool, width: int) -> str:
    if not found.deviations:
        return "all start when the model says\n"
    rows = [
        [one_line(each.name), one_line(each.operation), each.unit, f"{each.modelled:,.0f}", f"{each.measured:,.0f}", f"{each.lost:+,.0f}"]
        for each in found.deviations[:SHOWN]
    ]
    more = f"and {len(found.deviations) - SHOWN} more\n" if len(found.deviations) > SHOWN else ""
    return (
        table_text(["largest deviations", "of", "unit", "modelled start", "measured start", "cycles lost"], rows, (0, 1, 2), terminal, width) + more
    )
