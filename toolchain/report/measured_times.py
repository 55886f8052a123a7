"""Times that a device measured. Its profile is a text, a table (CSV, RFC 4180) with a row for each instruction, or for each operation, that it timed.
Measured times stand beside modelled ones: by operation, where the difference between the two grows, as lanes of a timeline, and as text."""

import csv
import io
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolchain.isa.program import Ints
from toolchain.report.bundles import ModelledRegion
from toolchain.report.tables import counted, table_text
from toolchain.report.timeline_data import Overlay
from toolchain.spec.errors import Source, Span, UserError, fail, nearest, one_line
from toolchain.spec.files import read_limited
from toolchain.timing.event_run import Times

MOST_BYTES = 1 << 28
MOST_ROWS = 1 << 22
"""The most bytes and rows of a profile."""
LATEST = 1e15
"""Cycles or nanoseconds that a time is below, so that a float64 holds it to less than one."""
UNITS = ("cycles", "ns")
WHOLE = re.compile(r"[0-9]{1,9}\Z")
NUMBER = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,9})?\Z")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}\Z")
QUOTED = 40
HINT = "columns are region, stream, instruction or operation, start_cycles and end_cycles or start_ns and end_ns, and counters"


@dataclass(frozen=True)
class Event:
    """A span that was timed. region: empty where the file has no such column. stream, instruction: numbers from 0, an instruction's in the order of
    its stream; -1 where the row is of an operation. start, end: in the profile's unit, by the device's clock; end is None where it was not measured.
    counters: in the order of the profile's names of them. line: of the file."""

    line: int
    region: str
    stream: int
    instruction: int
    operation: str
    start: float
    end: float | None
    counters: tuple[float, ...]


@dataclass(frozen=True)
class Profile:
    """unit: cycles, of the machine's clock, or ns. counters: names of further columns."""

    source: Source
    unit: str
    counters: tuple[str, ...]
    events: tuple[Event, ...]

    def span(self, event: Event) -> Span:
        """The beginning of its row."""
        return Span(self.source, event.line, 1)

    def of_region(self, name: str, only: bool) -> tuple[Event, ...]:
        """only: whether the bundle has no other region, so that rows need not name it."""
        return tuple(event for event in self.events if event.region == name or (only and not event.region))

    def regions(self, known: Collection[str]) -> tuple[str, ...]:
        """Names of the `known` programs that were timed, in their order. Raises UserError E1128 for a row of another one."""
        for event in self.events:
            if event.region not in known and (event.region or len(known) != 1):
                text = f"the bundle has no program '{event.region[:QUOTED]}'" if event.region else "the row does not say which region it is of"
                raise fail("E1128", text, self.span(event), f"known: {', '.join(known) or 'none'}")
        return tuple(name for name in known if self.of_region(name, len(known) == 1))


def profile_file(path: Path) -> Profile:
    """Raises UserError E0001, E0005, E1128."""
    return read_profile(Source(str(path), read_limited(path, MOST_BYTES, "the profile").decode("utf-8", "replace")))


def read_profile(source: Source) -> Profile:
    """Raises UserError E1128 with the place of the first thing that is wrong."""
    rows = _rows(source)
    none: tuple[int, Sequence[str]] = (1, ())
    _, head = next(rows, none)
    unit, counters = _head(source, [name.strip() for name in head])
    events: list[Event] = []
    columns = [name.strip() for name in head]
    for line, cells in rows:
        if len(cells) != len(columns):
            raise _wrong(source, line, f"the row has {len(cells)} cells, the table {len(columns)} columns")
        if len(events) == MOST_ROWS:
            raise _wrong(source, line, f"more than {MOST_ROWS} rows")
        events.append(_event(source, line, dict(zip(columns, (cell.strip() for cell in cells), strict=True)), unit, counters))
    if not events:
        raise _wrong(source, 1, "the profile has no row")
    return Profile(source, unit, counters, tuple(events))


def _rows(source: Source) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows that are not empty, each with its line."""
    reader = csv.reader(io.StringIO(source.text, newline=""), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise _wrong(source, reader.line_num, f"the row is no CSV: {error}") from None


def _head(source: Source, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The unit and the counters that the first row names."""
    if repeated := [name for name in names if names.count(name) > 1]:
        raise _wrong(source, 1, f"the column '{repeated[0][:QUOTED]}' is there twice")
    units = [unit for unit in UNITS if f"start_{unit}" in names]
    if len(units) != 1:
        raise _wrong(source, 1, "one of the columns start_cycles and start_ns is needed")
    if ("instruction" in names) == ("operation" in names):
        raise _wrong(source, 1, "one of the columns instruction and operation is needed")
    known = ("region", "stream", "instruction", "operation", f"start_{units[0]}", f"end_{units[0]}")
    counters = tuple(name for name in names if name not in known)
    for name in counters:
        if not NAME.match(name) or name.startswith(("start_", "end_")):
            raise _wrong(source, 1, f"'{name[:QUOTED]}' is no column of a profile", nearest(name, known) or HINT)
    return units[0], counters


def _event(source: Source, line: int, cells: Mapping[str, str], unit: str, counters: tuple[str, ...]) -> Event:
    def whole(name: str, default: int) -> int:
        if name not in cells:
            return default
        if not WHOLE.match(cells[name]):
            raise _wrong(source, line, f"'{cells[name][:QUOTED]}' in column {name} is no number from 0 on")
        return int(cells[name])

    def number(name: str) -> float:
        if not NUMBER.match(cells[name]) or not math.fabs(float(cells[name])) < LATEST:
            raise _wrong(source, line, f"'{cells[name][:QUOTED]}' in column {name} is no number below {LATEST:g}")
        return float(cells[name])

    start, end = number(f"start_{unit}"), number(f"end_{unit}") if cells.get(f"end_{unit}") else None
    if end is not None and end < start:
        raise _wrong(source, line, "it ends before it starts")
    operation = cells.get("operation", "")
    stream, instruction = (-1, -1) if "operation" in cells else (whole("stream", 0), whole("instruction", 0))
    return Event(line, cells.get("region", ""), stream, instruction, operation, start, end, tuple(number(name) for name in counters))


def _wrong(source: Source, line: int, text: str, hint: str = "") -> UserError:
    return fail("E1128", text, Span(source, line, 1), hint)


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
