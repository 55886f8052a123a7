"""Finds the instructions of one stream: where each starts and what it is."""

from dataclasses import dataclass

import numpy as np

from toolchain.isa.binary.packing import as_words, lengths, pattern, word_bytes
from toolchain.isa.program import Ints
from toolchain.spec.errors import UserError, fail
from toolchain.spec.evaluate import align
from toolchain.spec.model import Machine


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
    """int16: the kind that would start at each multiple of `stride` bytes; -1 where nothing matches."""
    size = word_bytes(machine.encoding)
    step = stride // size
    words = as_words(data, machine.encoding)
    count = -(-len(words) // step)
    padded = np.concatenate((words, np.zeros(machine.encoding.longest_bytes // size + step, words.dtype)))
    found = np.zeros(count, np.int16)
    for kind, instruction in sorted(enumerate(machine.instructions), key=lambda item: len(item[1].others)):
        same = found == 0  # one that takes all other values of a field has what is left
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
