"""A device's profile as text: a table (CSV, RFC 4180) with a row for each instruction, or for each operation, that it timed."""

import csv
import io
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.spec.errors import Source, Span, UserError, fail, nearest
from toolchain.spec.files import read_limited

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
