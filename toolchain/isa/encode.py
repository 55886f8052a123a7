"""Instructions as bits: the positions of fields in words, and a Program's columns to bytes, checked against every field's range."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import UserError, fail
from toolchain.spec.evaluate import align
from toolchain.spec.model import Encoding, Field, Instruction, Machine

Words = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class WordPart:
    """Bits of a field inside one word: `(word >> shift) & mask` gives the field's bits from `up` on."""

    word: int
    shift: int
    mask: int
    up: int


def word_bytes(encoding: Encoding) -> int:
    """Bytes of the words that numpy handles: the encoding's unit, or the largest power of two up to 8 that divides it."""
    return math.gcd(encoding.unit_bytes, 8)


def parts(field: Field, word_bits: int) -> tuple[WordPart, ...]:
    """One part for each word that the field touches; one in all, unless it straddles."""
    found: list[WordPart] = []
    bit, end = field.lsb, field.lsb + field.bits
    while bit < end:
        stop = min(end, (bit // word_bits + 1) * word_bits)
        found.append(WordPart(bit // word_bits, bit % word_bits, (1 << (stop - bit)) - 1, bit - field.lsb))
        bit = stop
    return tuple(found)


def unused(instruction: Instruction, word_bits: int) -> tuple[int, ...]:
    """For each word of an instruction, the bits that no field covers."""
    covered = 0
    for field in instruction.fields:
        covered |= ((1 << field.bits) - 1) << field.lsb
    free = ~covered
    return tuple(free >> at & ((1 << word_bits) - 1) for at in range(0, instruction.bytes * 8, word_bits))


def pattern(instruction: Instruction, word_bits: int) -> dict[int, tuple[int, int]]:
    """word -> (mask, value): the bits by which the instruction is recognised."""
    found: dict[int, tuple[int, int]] = {}
    for name, value in instruction.match.items():
        for part in parts(instruction.field(name), word_bits):
            mask, bits = found.get(part.word, (0, 0))
            found[part.word] = (mask | part.mask << part.shift, bits | (value >> part.up & part.mask) << part.shift)
    return found


def matched_value(instruction: Instruction, field: Field) -> int:
    """The value (not the stored bits) of a field that identifies the instruction."""
    stored = instruction.match[field.name]
    negative = field.signed and stored >> (field.bits - 1) & 1
    return stored - (negative << field.bits) + field.minus


def lengths(machine: Machine) -> Ints:
    """int64 [instructions]: bytes of each kind."""
    return np.array([i.bytes for i in machine.instructions], np.int64)


def as_words(data: bytes, encoding: Encoding) -> Words:
    """The little-endian words of a byte string whose length is a multiple of the unit; a view, not a copy."""
    return np.frombuffer(data, np.dtype(f"<u{word_bytes(encoding)}"))


def encode(machine: Machine, kinds: Ints, columns: Sequence[Mapping[str, Ints]]) -> bytes:
    """The bytes of one stream, zero padded to encoding.pad_bytes.

    kinds: int64 [n], index into machine.instructions. columns[kind][field]: int64, one value for each instruction of that
    kind, in order; fields that identify the instruction or have a default may be left out. Raises UserError E0410 (a value
    outside its field), E0411 (a field is missing, or has another number of values than instructions).
    """
    starts, total = offsets(machine, kinds)
    return _encoded(machine, kinds, columns, starts, align(total, machine.encoding.pad_bytes), np.arange(len(kinds)))


def _encoded(machine: Machine, kinds: Ints, columns: Sequence[Mapping[str, Ints]], starts: Ints, total: int, numbers: Ints) -> bytes:
    """So many bytes, zeros between instructions. starts: int64 [n], the first byte of each. numbers: int64 [n], by which messages name them."""
    size = word_bytes(machine.encoding)
    words = np.zeros(total // size, np.dtype(f"<u{size}"))
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        rows = np.flatnonzero(kinds == kind)
        first = starts[rows] // size
        for word, value in _words(machine.instructions[kind], columns[kind], numbers[rows], 8 * size).items():
            words[first + word] = value
    return words.tobytes()


def encode_program(program: Program) -> tuple[bytes, ...]:
    """The bytes of every stream, made from the columns alone; equal to program.streams."""
    return encode_streams(program.machine, program.kind, program.stream, program.columns)[0]


def encode_streams(machine: Machine, kinds: Ints, stream: Ints, columns: Sequence[Mapping[str, Ints]]) -> tuple[tuple[bytes, ...], Ints]:
    """The bytes of every stream, and int64 [n], the byte offset of each instruction in its stream.

    stream: int64 [n], ascending; otherwise as for `encode`, for the instructions of all streams.
    """
    first = np.searchsorted(stream, np.arange(machine.streams + 1))
    starts, total = offsets(machine, kinds)
    begins = np.append(starts, total)[first]
    starts = starts - begins[stream]
    pad = machine.encoding.pad_bytes
    bounds = np.append(0, np.cumsum(-(-np.diff(begins) // pad) * pad))
    data = _encoded(machine, kinds, columns, bounds[stream] + starts, int(bounds[-1]), np.arange(len(kinds)) - first[stream])
    return tuple(data[start:stop] for start, stop in pairwise(bounds.tolist())), starts


def offsets(machine: Machine, kinds: Ints) -> tuple[Ints, int]:
    """int64 [n] byte offset of each instruction of a stream, and the bytes of all of them."""
    ends = np.cumsum(lengths(machine)[kinds])
    return ends - lengths(machine)[kinds], int(ends[-1]) if len(ends) else 0


def _words(instruction: Instruction, columns: Mapping[str, Ints], rows: Ints, word_bits: int) -> dict[int, Words]:
    """word -> uint64 [n]"""
    found: dict[int, Words] = {}
    for field in instruction.fields:
        value = _checked(instruction, field, columns.get(field.name), rows)
        stored = (value - field.minus).view(np.uint64)
        for part in parts(field, word_bits):
            bits = (stored >> np.uint64(part.up) & np.uint64(part.mask)) << np.uint64(part.shift)
            found[part.word] = found[part.word] | bits if part.word in found else bits
    return found


def _checked(instruction: Instruction, field: Field, column: Ints | None, rows: Ints) -> Ints:
    """int64 [n]: the field's values, all inside its range."""
    fixed = matched_value(instruction, field) if field.name in instruction.match else None
    if column is None:
        implied = field.default if fixed is None else fixed
        if implied is None:
            raise fail("E0411", f"{instruction.name}: no values for field '{field.name}'")
        return np.full(len(rows), implied, np.int64)
    if len(column) != len(rows):
        raise fail("E0411", f"{instruction.name}: field '{field.name}' has {len(column)} values for {len(rows)} instructions")
    low, high = (field.low, field.high) if fixed is None else (fixed, fixed)
    value = np.asarray(column, np.int64)
    if int(value.min()) < low or int(value.max()) > high:
        raise _outside(instruction, field, value, rows, low, high)
    return value


def _outside(instruction: Instruction, field: Field, value: Ints, rows: Ints, low: int, high: int) -> UserError:
    row = int(np.argmax((value < low) | (value > high)))
    return fail("E0410", f"#{rows[row]} {instruction.name}: field '{field.name}' is {value[row]}, outside {low}..{high}")
