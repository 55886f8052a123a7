"""Items to assembly: fields are evaluated for all tiles at once, and a shared template says how a line looks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from toolchain.isa.assembly.form import Form, Memo, forms, write_value
from toolchain.isa.columns import Value
from toolchain.schedule.kernels.frame import Frame, enter
from toolchain.schedule.kernels.sequence import Formula, Issue, Items
from toolchain.schedule.sandbox.environment import render
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import Span, fail
from toolchain.spec.model import Field, Machine
from toolchain.spec.resources import PACKAGE

SHARED = PACKAGE / "templates" / "assembly"
LINE = "instruction.asm.j2"

Line = tuple[str, Span]
"""The text, and where the kernel says it."""


@dataclass
class LineWriter:
    """Writes the lines of one machine. Its folder may have a template of its own for an instruction."""

    machine: Machine
    folder: Path
    patterns: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict[tuple[str, tuple[str, ...]], str])

    def __post_init__(self) -> None:
        self.forms = forms(self.machine)
        self.shape = self.folder if (self.folder / LINE).is_file() else SHARED
        self.spellings = {form.kind: [Memo(_speller(f)) for f in form.fields] for form in self.forms.values()}

    def write(self, items: Items, frame: Frame, label: Callable[[int], str]) -> list[list[Line]]:
        """The lines of each row of the frame. label: what a row is, for messages.

        Raises UserError E0304 for a value that its field does not hold, E0122, E0330.
        """
        found: list[list[Line]] = [[] for _ in range(frame.count)]
        of, lines = self._written(items, frame, np.arange(frame.count), label)
        for row, line in zip(of.tolist(), lines, strict=True):
            found[row].append(line)
        return found

    def _written(self, items: Items, frame: Frame, rows: Ints, label: Callable[[int], str]) -> tuple[Ints, Sequence[Line]]:
        """(row, line) of every instruction, in order. rows: the outermost row of each of the frame's, ascending."""
        parts: list[tuple[Ints, Sequence[Line]]] = []
        for inside in enter(items, frame):
            outer, body = np.arange(frame.count) if inside.of is None else inside.of, inside.item.body
            if isinstance(body, Issue):
                texts = self._texts(body, inside.frame, lambda row, outer=outer: label(int(rows[outer[row]])))
                parts.append((outer, [(text, body.span) for text in texts]))
            else:
                own, lines = self._written(body, inside.frame, rows[outer], label)
                parts.append((outer[own], lines))
        if len(parts) == 1:
            return parts[0]
        of: Ints = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in parts)])
        every: list[Line] = [line for _, lines in parts for line in lines]
        order = np.argsort(of, kind="stable")
        numbers: list[int] = order.tolist()
        return of[order], [every[n] for n in numbers]

    def _texts(self, issue: Issue, frame: Frame, label: Callable[[int], str]) -> list[str]:
        form = self.forms[issue.instruction]
        values = [_value(form, f, issue.fields.get(f.name), frame, label) for f in form.fields]
        columns = [[spell[v] for v in value.tolist()] for value, spell in zip(values, self.spellings[form.kind], strict=True) if np.ndim(value)]
        pattern = self._pattern(form, values)
        return [pattern % texts for texts in zip(*columns, strict=True)] if columns else [pattern % ()] * frame.count

    def _pattern(self, form: Form, values: list[Value]) -> str:
        """A line with gaps for what differs; fields at their defaults are left out where the machine's assembly does so."""
        texts = tuple("%s" if np.ndim(v) else spell[v] for v, spell in zip(values, self.spellings[form.kind], strict=True))
        if (form.instruction.name, texts) not in self.patterns:
            shown = [
                {"name": f.name, "value": text, "positional": place < form.positional}
                for place, (f, text, value) in enumerate(zip(form.fields, texts, values, strict=True))
                if form.pairs or place < form.positional or np.ndim(value) or value != f.default
            ]
            scope = {"name": form.instruction.name, "fields": shown, "assign": " " if form.pairs else "="}
            self.patterns[form.instruction.name, texts] = render(self.shape, LINE, scope).rstrip("\n") + "\n"
        return self.patterns[form.instruction.name, texts]


def _speller(described: Field) -> Callable[[int], str]:
    return lambda value: write_value(described, value)


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
