"""Positions of an instruction's bits in the words of a program, for encode and decode alike."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.program import Ints
from toolchain.spec.model import Encoding, Field, Instruction, Machine

Words = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class Part:
    """Bits of a field inside one word: `(word >> shift) & mask` gives the field's bits from `up` on."""

    word: int
    shift: int
    mask: int
    up: int


def word_bytes(encoding: Encoding) -> int:
    """Bytes of the words that numpy handles: the encoding's unit, or the largest power of two up to 8 that divides it."""
    return math.gcd(encoding.unit_bytes, 8)


def parts(field: Field, word_bits: int) -> tuple[Part, ...]:
    """One part for each word that the field touches; one in all, unless it straddles."""
    found: list[Part] = []
    bit, end = field.lsb, field.lsb + field.bits
    while bit < end:
        stop = min(end, (bit // word_bits + 1) * word_bits)
        found.append(Part(bit // word_bits, bit % word_bits, (1 << (stop - bit)) - 1, bit - field.lsb))
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
    """word -> (mask, value): what the words of this instruction hold where it is recognised."""
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
    """The little-endian words of a byte string whose length is a multiple of the unit; a view, nothing is copied."""
    return np.frombuffer(data, np.dtype(f"<u{word_bytes(encoding)}"))
