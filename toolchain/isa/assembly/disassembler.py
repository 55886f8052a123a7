"""A Program to assembly text, in blocks, so that the longest program costs no more memory than its text; and one example of each kind of
instruction."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from toolchain.isa.assembly.form import Form, Memo, forms, write_value
from toolchain.isa.encode import lengths
from toolchain.isa.program import Ints, Program
from toolchain.spec.model import Field

Comments = Callable[[int], str] | Sequence[str]
BLOCK = 1 << 14
_KEPT = 1 << 16


def disassemble(program: Program, footprints: Comments | None = None) -> str:
    """The whole text; assembling it gives the program's bytes again. footprints: a comment for each instruction, by index."""
    return "".join(disassemble_blocks(program, footprints))


def disassemble_blocks(program: Program, footprints: Comments | None = None) -> Iterator[str]:
    """The text in blocks of whole lines."""
    writers = {form.kind: _writer(form) for form in forms(program.machine).values()}
    for stream in range(program.machine.streams):
        start, stop = np.searchsorted(program.stream, (stream, stream + 1)).tolist()
        if program.machine.streams > 1 and stop > start:
            yield f".stream {stream}\n"
        for first in range(start, stop, BLOCK):
            lines = _block(program, first, min(first + BLOCK, stop), writers)
            if footprints is not None:
                lines = [_commented(line, footprints, first + i) for i, line in enumerate(lines)]
            yield "\n".join(lines) + "\n"


def line_of(program: Program, index: int) -> str:
    """The line of one instruction of a program."""
    kind = int(program.kind[index])
    writer = _writer(next(form for form in forms(program.machine).values() if form.kind == kind))
    return next(_texts(program, kind, program.row[index : index + 1], writer))


def write_line(form: Form, values: Sequence[int]) -> str:
    """The line of one instruction. values: of form.fields."""
    return form.instruction.name + "".join(memo[value] for (_, memo), value in zip(_writer(form), values, strict=True))


def _commented(line: str, footprints: Comments, index: int) -> str:
    text = footprints(index) if callable(footprints) else footprints[index]
    return f"{line}  # {' '.join(text.split())}" if text else line


def _block(program: Program, first: int, stop: int, writers: dict[int, list[tuple[str, Memo[int, str]]]]) -> list[str]:
    """The lines of instructions first..stop-1."""
    kinds = program.kind[first:stop]
    lines = [""] * len(kinds)
    for kind in np.unique(kinds).tolist():
        places = np.flatnonzero(kinds == kind)
        rows = program.row[first + places]
        texts = _texts(program, kind, rows, writers[kind])
        for place, text in zip(places.tolist(), texts, strict=True):
            lines[place] = text
    return lines


def _texts(program: Program, kind: int, rows: Ints, writers: list[tuple[str, Memo[int, str]]]) -> Iterator[str]:
    """One line for each row of one kind."""
    own = program.columns[kind]
    columns: list[Iterator[str]] = [repeat(program.machine.instructions[kind].name, len(rows))]
    for name, memo in writers:
        if len(memo) > _KEPT:
            memo.clear()
        columns.append(map(memo.__getitem__, own[name][rows].tolist()))
    return map("".join, zip(*columns, strict=True))


def _writer(form: Form) -> list[tuple[str, Memo[int, str]]]:
    """For each field: its name, and its text by value, with the space before it; empty where it is left out."""
    return [(f.name, Memo(_spell(form, f, place < form.positional))) for place, f in enumerate(form.fields)]


def _spell(form: Form, field: Field, positional: bool) -> Callable[[int], str]:
    if positional:
        return lambda value: f" {write_value(field, value)}"
    if form.pairs:
        return lambda value: f" {field.name} {write_value(field, value)}"
    return lambda value: "" if value == field.default else f" {field.name}={write_value(field, value)}"


@dataclass(frozen=True)
class Example:
    """line: of assembly. data: the encoded instruction."""

    line: str
    data: bytes


def examples_of(program: Program) -> dict[str, Example]:
    """By name of the instruction, in the machine's order."""
    found: dict[str, Example] = {}
    sizes = lengths(program.machine)
    for kind in np.unique(program.kind).tolist():
        index = int(np.argmax(program.kind == kind))
        start = int(program.offset[index])
        data = program.streams[int(program.stream[index])][start : start + int(sizes[kind])]
        found[program.machine.instructions[kind].name] = Example(line_of(program, index), data)
    return found
