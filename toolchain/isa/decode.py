"""Bytes to a Program: where each instruction starts and which one it is, then every field, a column at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.isa.checks import MOST, Violation, build_program, refuse, violations
from toolchain.isa.encode import WordPart, Words, as_words, lengths, matched_value, parts, pattern, unused, word_bytes
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.evaluate import align
from toolchain.spec.model import Field, Instruction, Machine


@dataclass(frozen=True)
class Scan:
    """kind, offset: int64 [n], index into machine.instructions and byte offset of each instruction of a stream."""

    kind: Ints
    offset: Ints


@dataclass(frozen=True)
class _Stream:
    """One stream and how to speak of it."""

    machine: Machine
    data: bytes
    number: int
    place: str

    def error(self, code: str, message: str, offset: int, hint: str = "") -> UserError:
        where = f" of stream {self.number}" if self.machine.streams > 1 else ""
        return fail(code, f"{message} at byte {offset:#x}{where}", hint=hint, place=self.place)


def scan(machine: Machine, data: bytes, number: int = 0, place: str = "") -> Scan:
    """Walks a stream up to the instruction that ends it. An empty stream of a machine with several is an idle one.

    Raises UserError E0401 (cut short), E0402 (unknown instruction), E0406 (no end), E0407 (bytes after the end).
    """
    stream = _Stream(machine, data, number, place)
    unit = machine.encoding.unit_bytes
    if not data and machine.streams > 1:
        return Scan(np.empty(0, np.int64), np.empty(0, np.int64))
    if len(data) % unit:
        raise stream.error("E0401", f"the program is cut short: {len(data)} bytes are not a multiple of {unit}", len(data))
    stride = _only_length(machine) or unit
    kinds = _recognise(machine, data, stride)
    starts = _starts(machine, kinds, stride)
    kind, offset = kinds[starts].astype(np.int64), starts * stride
    _check_last(stream, kind, offset)
    return Scan(kind, offset)


def _only_length(machine: Machine) -> int:
    """The bytes of every instruction when all have as many, else 0."""
    found = {i.bytes for i in machine.instructions}
    return found.pop() if len(found) == 1 else 0


def _recognise(machine: Machine, data: bytes, stride: int) -> Ints:
    """int16: the kind that would start at each multiple of `stride` bytes; -1 where none matches."""
    size = word_bytes(machine.encoding)
    step = stride // size
    words = as_words(data, machine.encoding)
    count = -(-len(words) // step)
    padded = np.concatenate((words, np.zeros(machine.encoding.longest_bytes // size + step, words.dtype)))
    found = np.zeros(count, np.int16)
    for kind, instruction in sorted(enumerate(machine.instructions), key=lambda item: len(item[1].others)):
        same = found == 0  # one that takes all other values of a field gets the rest
        for word, (mask, value) in pattern(instruction, 8 * size).items():
            column = padded[word : word + count * step : step]
            same &= (column & words.dtype.type(mask)) == words.dtype.type(value)
        found[same] = kind + 1
    return found - np.int16(1)


def _starts(machine: Machine, kinds: Ints, stride: int) -> Ints:
    """int64: where instructions start, in strides, up to and with the first that is unknown or ends the program."""
    end = _end_kind(machine)
    if _only_length(machine):
        stops = np.flatnonzero((kinds < 0) | (kinds == end))
        return np.arange(stops[0] + 1 if len(stops) else len(kinds))
    table = np.append(lengths(machine) // stride, 0).astype(np.uint16)
    if end >= 0:
        table[end] = 0
    steps = table[kinds].data
    starts: list[int] = []
    at, count = 0, len(kinds)
    while at < count:
        starts.append(at)
        step = steps[at]
        if not step:
            break
        at += step
    return np.array(starts, np.int64)


def _end_kind(machine: Machine) -> int:
    names = [i.name for i in machine.instructions]
    return names.index(machine.program.ends) if machine.program.ends in names else -1


def _check_last(stream: _Stream, kind: Ints, offset: Ints) -> None:
    """Checks the last instruction and the bytes after it; the walk checked all others."""
    machine, data = stream.machine, stream.data
    ends, pad = machine.program.ends, machine.encoding.pad_bytes
    if not len(kind):
        raise stream.error("E0406", f"the program is empty; it must end with {ends}" if ends else "the program is empty", 0)
    at = int(offset[-1])
    if kind[-1] < 0:
        word = int.from_bytes(data[at : at + machine.encoding.unit_bytes], "little")
        raise stream.error("E0402", f"unknown instruction {word:#0{2 + 2 * machine.encoding.unit_bytes}x}", at)
    last = machine.instructions[int(kind[-1])]
    stop = at + last.bytes
    if stop > len(data):
        raise stream.error("E0401", f"the program is cut short: {last.name} has {last.bytes} bytes, {len(data) - at} are there", at)
    if last.name != ends and ends:
        raise stream.error("E0406", f"the program does not end with {ends}", stop)
    if len(data) < align(stop, pad):
        raise stream.error("E0401", f"the program is cut short: zero bytes up to a multiple of {pad} are missing", len(data))
    tail = data[stop:]
    if len(data) > align(stop, pad) or tail.count(0) != len(tail):
        first = next((i for i, byte in enumerate(tail) if byte), align(stop, pad) - stop)
        raise stream.error("E0407", f"something follows {ends or last.name}", stop + first, f"only zero bytes up to a multiple of {pad} may")


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


def _value(field: Field, places: Sequence[WordPart], held: Sequence[Words]) -> Ints:
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
