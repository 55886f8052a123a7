"""Items to instructions as columns: fields are evaluated for all tiles at once, no text is written, and an error names the template or
the place of a kernel file that wrote the instruction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from toolchain.isa.assembly_line import Form, forms
from toolchain.isa.columns import Value
from toolchain.schedule.kernels.frame import Frame, enter
from toolchain.schedule.kernels.kernel import Formula, Issue, Items
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import Diagnostic, Source, Span, UserError, fail
from toolchain.spec.model import Field, Machine

Place = Path | Span
"""A template, or a place in a kernel file."""

SHOWN = 120
"""Characters of an instruction's line in a message."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """n instructions. of: int64 [n], ascending: the row of the frame that each one is for. kind: int64 [n], index into machine.instructions.

    row: int64 [n], where its values stand in tables[kind], int64 [rows, fields of its form]. source: int64 [n], index into sources: the text that it
    is from.
    """

    of: Ints
    kind: Ints
    row: Ints
    source: Ints
    tables: Mapping[int, Ints]
    sources: tuple[Place, ...]

    def __len__(self) -> int:
        return len(self.of)

    def values(self, index: int) -> list[int]:
        """The fields of one instruction, in the order of its form."""
        return self.tables[int(self.kind[index])][int(self.row[index])].tolist()


def join_batches(batches: Sequence[Batch]) -> Batch:
    """The instructions of all batches in turn; their rows mean nothing any more."""
    tables: dict[int, list[Ints]] = {}
    rows, sources = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    filled, named = dict[int, int](), 0
    for batch in batches:
        before = np.zeros(1 + max(batch.tables, default=0), np.int64)
        for kind, table in batch.tables.items():
            before[kind] = filled.get(kind, 0)
            filled[kind] = int(before[kind]) + len(table)
            tables.setdefault(kind, []).append(table)
        rows.append(batch.row + before[batch.kind])
        sources.append(batch.source + named)
        named += len(batch.sources)
    kinds = np.concatenate([np.zeros(0, np.int64), *(batch.kind for batch in batches)])
    joined = {kind: np.concatenate(own) for kind, own in tables.items()}
    places = tuple(place for batch in batches for place in batch.sources)
    return Batch(np.zeros(len(kinds), np.int64), kinds, np.concatenate(rows), np.concatenate(sources), joined, places)


@dataclass
class _Tables:
    """The values of a batch while it grows."""

    tables: dict[int, list[Ints]] = field(default_factory=dict[int, list[Ints]])
    filled: dict[int, int] = field(default_factory=dict[int, int])
    sources: list[Place] = field(default_factory=list[Place])

    def add(self, kind: int, values: Ints, source: Place) -> Ints:
        """int64 [3, rows of values]: kind, row and source of the new instructions."""
        first = self.filled.get(kind, 0)
        self.filled[kind] = first + len(values)
        self.tables.setdefault(kind, []).append(values)
        self.sources.append(source)
        rows = np.arange(first, first + len(values))
        return np.stack([np.full(len(values), kind), rows, np.full(len(values), len(self.sources) - 1)])


@dataclass
class InstructionWriter:
    """Writes the instructions of one machine."""

    machine: Machine

    def __post_init__(self) -> None:
        self.forms = forms(self.machine)

    def write(self, items: Items, frame: Frame, label: Callable[[int], str]) -> Batch:
        """The instructions of every row of the frame, row by row. label: the description of a row, for messages.

        Raises UserError E0304 for a value that its field does not hold, E0122, E0330.
        """
        tables = _Tables()
        of, kind, row, source = self._written(items, frame, np.arange(frame.count), label, tables)
        values = {number: np.concatenate(own) for number, own in tables.tables.items()}
        return Batch(of, kind, row, source, values, tuple(tables.sources))

    def _written(self, items: Items, frame: Frame, rows: Ints, label: Callable[[int], str], tables: _Tables) -> Ints:
        """int64 [4, n]: row of the frame, kind, row of its table and source of every instruction. rows: the outermost row of each of the frame's."""
        parts = [np.zeros((4, 0), np.int64)]
        for inside in enter(items, frame):
            outer, body = np.arange(frame.count) if inside.of is None else inside.of, inside.item.body
            if isinstance(body, Issue):
                form = self.forms[body.instruction]
                values = _values(form, body, inside.frame, lambda row, outer=outer: label(int(rows[outer[row]])))
                parts.append(np.vstack([outer, tables.add(form.kind, values, body.span)]))
            else:
                own = self._written(body, inside.frame, rows[outer], label, tables)
                own[0] = outer[own[0]]
                parts.append(own)
        if len(parts) == 2:
            return parts[1]
        found = np.concatenate(parts, axis=1)
        return found[:, np.argsort(found[0], kind="stable")]


def _values(form: Form, issue: Issue, frame: Frame, label: Callable[[int], str]) -> Ints:
    """int64 [rows of the frame, fields of the form]"""
    found = np.empty((len(form.fields), frame.count), np.int64)
    for slot, described in enumerate(form.fields):
        found[slot] = _value(form, described, issue.fields.get(described.name), frame, label)
    return found.T


def _value(form: Form, described: Field, formula: Formula | None, frame: Frame, label: Callable[[int], str]) -> Value:
    """A field's value for every row; its default, or zero, where the kernel does not say it."""
    if formula is None:
        return described.default or 0
    value = frame.value(formula)
    if isinstance(value, int) and described.low <= value <= described.high:
        return value
    wrong = np.flatnonzero((np.asarray(value) < described.low) | (np.asarray(value) > described.high))
    if len(wrong):
        seen = value if isinstance(value, int) else int(value[wrong[0]])
        text = f"{form.instruction.name}'s {described.name} is {seen}, outside {described.low}..{described.high}, for {label(int(wrong[0]))}"
        raise fail("E0304", text, formula.expr.span)
    return value


def told_for(error: UserError, label: str) -> UserError:
    """The error of a template that could not be rendered, with the label of its step."""
    return UserError(*(replace(d, message=f"{d.message} (for {label})") for d in error.diagnostics))


def told(diagnostic: Diagnostic, line: str, label: str, place: Place) -> Diagnostic:
    """A fault of an instruction, with its line, its purpose, and the place that wrote it."""
    shown = line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
    message = f"{diagnostic.message}, in `{shown}` for {label}"
    if isinstance(place, Path):
        return replace(diagnostic, message=message, span=None, place=str(place))
    return replace(diagnostic, message=message, span=place)


def told_of_template(error: UserError, text: Source, label: str, template: Path) -> UserError:
    """Faults in a text that a template wrote, one for each kind of fault."""
    return once((told(d, text.line(d.span.line).strip(), label, template), template) if d.span else (d, str(d)) for d in error.diagnostics)


def once(found: Iterable[tuple[Diagnostic, Place | str]]) -> UserError:
    """The first diagnostic of each code and place: the other instructions of the place have the same fault."""
    first: dict[tuple[Place | str, str], Diagnostic] = {}
    for diagnostic, place in found:
        first.setdefault((place, diagnostic.code), diagnostic)
    return UserError(*first.values())
