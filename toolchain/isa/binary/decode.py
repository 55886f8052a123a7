"""Bytes to a Program: every field of every instruction, a column at a time."""

from collections.abc import Sequence

import numpy as np

from toolchain.isa.binary.packing import Part, Words, as_words, matched_value, parts, unused, word_bytes
from toolchain.isa.binary.scan import scan
from toolchain.isa.checks import MOST, Violation, build_program, refuse, violations
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import Diagnostic, fail
from toolchain.spec.model import Field, Instruction, Machine


def decode(machine: Machine, streams: Sequence[bytes], place: str = "") -> Program:
    """The program of one byte string a stream; `place` is how errors call it.

    Raises UserError: E0401 cut short, E0402 unknown instruction, E0403 unused bits set, E0404 constraint, E0405 sync bit
    without counter, E0406 no end, E0407 bytes after the end, E0408 routing, E0409 number of streams.
    """
    if len(streams) != machine.streams:
        raise fail("E0409", f"{machine.name} runs {machine.streams} stream(s), the program has {len(streams)}", place=place)
    scans = [scan(machine, data, number, place) for number, data in enumerate(streams)]
    kind, offset = (np.concatenate([getattr(s, name) for s in scans]) for name in ("kind", "offset"))
    stream = np.repeat(np.arange(len(scans)), [len(s.kind) for s in scans])
    words, first = _joined(machine, streams, stream, offset)
    members = [np.flatnonzero(kind == k) for k in range(len(machine.instructions))]
    columns = tuple(_columns(machine, i, words, first[rows]) for i, rows in zip(machine.instructions, members, strict=True))
    program = build_program(machine, streams, kind, stream, offset, columns)
    found = [v for i, rows in zip(machine.instructions, members, strict=True) for v in _stray(machine, i, words, first, rows)]
    found = sorted(found + violations(program), key=lambda v: v.index)
    refuse(found, lambda v: Diagnostic(v.code, f"{program.label(v.index)}: {v.message}", place=place))
    return program


def _joined(machine: Machine, streams: Sequence[bytes], stream: Ints, offset: Ints) -> tuple[Words, Ints]:
    """The words of all streams in one array, and in it the first word of each instruction."""
    size = word_bytes(machine.encoding)
    words = [as_words(data, machine.encoding) for data in streams]
    base = np.cumsum([0, *map(len, words[:-1])])
    return words[0] if len(words) == 1 else np.concatenate(words), base[stream] + offset // size


def _columns(machine: Machine, instruction: Instruction, words: Words, first: Ints) -> dict[str, Ints]:
    """field -> int64 [n] for the n instructions of one kind that start at the words `first`."""
    size = word_bytes(machine.encoding)
    held = [words[first + w].astype(np.uint64) for w in range(instruction.bytes // size)] if len(first) else []
    found: dict[str, Ints] = {}
    for field in instruction.fields:
        if not len(first):
            found[field.name] = np.empty(0, np.int64)
        elif field.name in instruction.match:
            found[field.name] = np.full(len(first), matched_value(instruction, field), np.int64)
        else:
            found[field.name] = _value(field, parts(field, 8 * size), held)
    return found


def _value(field: Field, places: Sequence[Part], held: Sequence[Words]) -> Ints:
    stored = held[places[0].word] >> np.uint64(places[0].shift)
    stored &= np.uint64(places[0].mask)
    for part in places[1:]:
        stored |= (held[part.word] >> np.uint64(part.shift) & np.uint64(part.mask)) << np.uint64(part.up)
    value = stored.view(np.int64)
    if field.signed and field.bits < 64:
        sign = np.int64(1 << (field.bits - 1))
        value ^= sign
        value -= sign
    if field.minus:
        value += field.minus
    return value


def _stray(machine: Machine, instruction: Instruction, words: Words, first: Ints, rows: Ints) -> list[Violation]:
    """Instructions with a bit set where no field is."""
    found: list[Violation] = []
    word_bits = 8 * word_bytes(machine.encoding)
    for word, mask in enumerate(unused(instruction, word_bits)):
        if mask and len(rows):
            stray = words[first[rows] + word] & words.dtype.type(mask)
            for row in np.flatnonzero(stray)[: MOST + 1].tolist():
                held = int(stray[row])
                bit = word * word_bits + (held & -held).bit_length() - 1
                found.append(Violation(int(rows[row]), "E0403", f"bit {bit} is set, and no field is there"))
    return found
