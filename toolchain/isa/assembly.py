"""Assembly text to a Program, every error at its line and column; and a Program to text, in blocks, and one example of each kind of instruction."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat

import numpy as np

from toolchain.isa.assembly_line import Faults, Form, LineReader, TokenError, TokenMemo, forms, write_value
from toolchain.isa.checks import MOST, Violation, build_program, limited, refuse, violations
from toolchain.isa.encode import encode_streams, lengths, matched_value
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import Diagnostic, Source, Span, nearest
from toolchain.spec.model import Field, Machine

_TOKEN = re.compile(r"\S+")
_LONGEST = 1 << 14


@dataclass
class Lines:
    """The instructions of a text, in its order: an entry an instruction; rows by kind, a value for each of Form.fields."""

    kinds: list[int] = field(default_factory=list[int])
    streams: list[int] = field(default_factory=list[int])
    lines: list[int] = field(default_factory=list[int])
    rows: dict[int, list[list[int]]] = field(default_factory=dict[int, list[list[int]]])


def assemble(machine: Machine, source: Source) -> Program:
    """The program of a text. Raises UserError E0301..E0309 for its spelling, E0404, E0405 and E0408 for its values."""
    text = read_lines(machine, source)
    order = np.argsort(np.array(text.streams, np.int64), kind="stable")
    kind, stream, line = (np.array(column, np.int64)[order] for column in (text.kinds, text.streams, text.lines))
    _check_ends(machine, source, kind, stream, line)
    program = build_from_tables(machine, kind, stream, [_table(form, text, order) for form in forms(machine).values()])
    refuse(violations(program), lambda v: Diagnostic(v.code, v.message, _blame(source, int(line[v.index]), v)))
    return program


def build_from_tables(machine: Machine, kind: Ints, stream: Ints, tables: Sequence[Ints]) -> Program:
    """The program of instructions, stream by stream; tables: of each kind, its values in program order, int64 [instructions, fields of its form].

    Raises UserError E0408 where the routing names no unit, E0410 for a value outside its field.
    """
    columns = tuple(_columns(form, table) for form, table in zip(forms(machine).values(), tables, strict=True))
    streams, offset = encode_streams(machine, kind, stream, columns)
    return build_program(machine, streams, kind, stream, offset, columns)


def read_lines(machine: Machine, source: Source) -> Lines:
    """Every line's values. Raises UserError E0301 to E0308 with all that is wrong in them."""
    readers = {name: LineReader(form) for name, form in forms(machine).items()}
    text, wrong, stream = Lines(), list[Diagnostic](), 0
    for number, line in enumerate(source.lines, 1):
        tokens = _code(line).split()
        if not tokens:
            continue
        faults: Faults = []
        reader = readers.get(tokens[0])
        if len(line) > _LONGEST:
            faults.append((0, TokenError("E0307", f"the line is longer than {_LONGEST} characters")))
        elif reader:
            text.rows.setdefault(reader.form.kind, []).append(reader.read(tokens, faults))
            text.kinds.append(reader.form.kind)
            text.streams.append(stream)
            text.lines.append(number)
        elif tokens[0].startswith("."):
            stream = _directive(machine, tokens, faults)
        else:
            faults.append((0, TokenError("E0301", f"unknown instruction '{tokens[0][:80]}'", nearest(tokens[0][:80], readers))))
        wrong += [_diagnostic(source, number, line, fault) for fault in faults]
        if len(wrong) > MOST:
            break
    if wrong:
        raise limited(wrong)
    return text


def _code(line: str) -> str:
    """The line without its comment."""
    if "#" in line:
        line = line[: line.index("#")]
    return line[: line.index(";")] if ";" in line else line


def _directive(machine: Machine, tokens: list[str], faults: Faults) -> int:
    """The stream that `.stream N` chooses."""
    if tokens[0] != ".stream":
        faults.append((0, TokenError("E0308", f"unknown directive '{tokens[0][:80]}'", nearest(tokens[0][:80], [".stream"]))))
    elif len(tokens) != 2:
        faults.append((min(len(tokens) - 1, 2), TokenError("E0308", ".stream takes one number")))
    elif not (tokens[1].isascii() and tokens[1].isdigit() and len(tokens[1]) < 10 and int(tokens[1]) < machine.streams):
        faults.append((1, TokenError("E0308", f"there is no stream {tokens[1][:80]}", f"streams are 0..{machine.streams - 1}")))
    else:
        return int(tokens[1])
    return 0


def _diagnostic(source: Source, number: int, line: str, fault: tuple[int, TokenError]) -> Diagnostic:
    token, error = fault
    return Diagnostic(error.code, error.message, Span(source, number, _column(line, token) + error.offset), error.hint)


def _column(line: str, token: int) -> int:
    """The column, from 1, of a token by its number."""
    return [found.start() for found in _TOKEN.finditer(_code(line))][token] + 1


def _table(form: Form, text: Lines, order: Ints) -> Ints:
    """int64 [n, fields]: the values of one kind, in program order."""
    rows = text.rows.get(form.kind, [])
    table = np.array(rows, np.int64).reshape(len(rows), len(form.fields))
    own = np.array(text.streams, np.int64)[np.array(text.kinds, np.int64) == form.kind]
    return table[np.argsort(own, kind="stable")] if len(order) else table


def _columns(form: Form, table: Ints) -> dict[str, Ints]:
    """field -> int64 [n] of one kind, with the fields that identify it."""
    values = {f.name: np.ascontiguousarray(table[:, slot]) for slot, f in enumerate(form.fields)}
    fixed = form.instruction.match
    return {f.name: np.full(len(table), matched_value(form.instruction, f)) if f.name in fixed else values[f.name] for f in form.instruction.fields}


def misplaced_ends(machine: Machine, kind: Ints, stream: Ints) -> Iterator[tuple[int, str]]:
    """(instruction, message) for each stream that does not end with the ending instruction, or has another one before. An empty program's is -1."""
    ends = machine.program.ends
    names = [i.name for i in machine.instructions]
    if ends not in names:
        return
    bounds = np.searchsorted(stream, np.arange(machine.streams + 1)).tolist()
    for number, (first, stop) in enumerate(pairwise(bounds)):
        where = f"stream {number}" if machine.streams > 1 else "the program"
        early = first + np.flatnonzero(kind[first:stop] == names.index(ends))
        if len(early) and early[0] < stop - 1:
            after = int(early[0]) + 1
            yield after, f"{names[kind[after]]} follows {ends}, which ends {where}"
        elif not len(early) and (stop > first or machine.streams == 1):
            yield stop - 1 if stop > first else -1, f"{where} does not end with {ends}"


def _check_ends(machine: Machine, source: Source, kind: Ints, stream: Ints, line: Ints) -> None:
    wrong = [_at_line(source, int(line[index]) if index >= 0 else 1, message) for index, message in misplaced_ends(machine, kind, stream)]
    if wrong:
        raise limited(sorted(wrong, key=lambda d: d.span.line if d.span else 0))


def _at_line(source: Source, number: int, message: str) -> Diagnostic:
    line = source.line(number)
    return Diagnostic("E0309", message, Span(source, number, len(line) - len(line.lstrip()) + 1))


def _blame(source: Source, number: int, violation: Violation) -> Span:
    """The place of the first field that a violation names, or of its instruction."""
    line = source.line(number)
    for token in _TOKEN.finditer(_code(line)):
        if token.group().partition("=")[0] in violation.fields:
            return Span(source, number, token.start() + 1)
    return Span(source, number, _column(line, 0))


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


def _block(program: Program, first: int, stop: int, writers: dict[int, list[tuple[str, TokenMemo[int, str]]]]) -> list[str]:
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


def _texts(program: Program, kind: int, rows: Ints, writers: list[tuple[str, TokenMemo[int, str]]]) -> Iterator[str]:
    """One line for each row of one kind."""
    own = program.columns[kind]
    columns: list[Iterator[str]] = [repeat(program.machine.instructions[kind].name, len(rows))]
    for name, memo in writers:
        if len(memo) > _KEPT:
            memo.clear()
        columns.append(map(memo.__getitem__, own[name][rows].tolist()))
    return map("".join, zip(*columns, strict=True))


def _writer(form: Form) -> list[tuple[str, TokenMemo[int, str]]]:
    """For each field: its name, and its text by value, with the space before it; empty where it is left out."""
    return [(f.name, TokenMemo(_spell(form, f, place < form.positional))) for place, f in enumerate(form.fields)]


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
