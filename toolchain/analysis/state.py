"""Everything a program reads and writes: memories, host registers, latched registers; elements of memories as Python integers."""

import mmap
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.spec.errors import fail
from toolchain.spec.model import Machine, Memory, RecordField, ScalarType, View


@dataclass(frozen=True)
class State:
    """memories[name]: uint8 [instances, bytes], bank after bank. host[name]: int64 [instances, depth].

    latched[name]: int64 [instances, depth, fields of the register]; written[name]: bool [instances, depth].
    The arrays change while a program runs; the mapping does not.
    """

    machine: Machine
    memories: dict[str, NDArray[np.uint8]]
    host: dict[str, NDArray[np.int64]]
    latched: dict[str, NDArray[np.int64]]
    written: dict[str, NDArray[np.bool_]]

    def copy(self) -> "State":
        """An independent copy, for comparing engines."""
        return State(
            self.machine,
            {k: v.copy() for k, v in self.memories.items()},
            {k: v.copy() for k, v in self.host.items()},
            {k: v.copy() for k, v in self.latched.items()},
            {k: v.copy() for k, v in self.written.items()},
        )


LARGE = 1 << 20
"""Bytes from which on a memory has pages of its own."""


def new_state(machine: Machine) -> State:
    """A zeroed state. Large memories cost nothing until they are touched."""
    plain = [m for m in machine.memories if m.kind != "register"]
    host = [m for m in machine.memories if m.host]
    latched = [m for m in machine.memories if m.latches]
    return State(
        machine,
        {m.name: _zeros(machine.instances(m.scope), m.bytes) for m in plain},
        {m.name: np.zeros((machine.instances(m.scope), m.depths[0]), np.int64) for m in host},
        {m.name: np.zeros((machine.instances(m.scope), m.depths[0], _fields(machine, m)), np.int64) for m in latched},
        {m.name: np.full((machine.instances(m.scope), m.depths[0]), m.zeroed) for m in latched},
    )


def _fields(machine: Machine, memory: Memory) -> int:
    return len(machine.latched(memory))


def _zeros(instances: int, size: int) -> NDArray[np.uint8]:
    """Zeros in small pages. Numpy asks for huge ones, of which one touched byte costs two megabytes. Raises MemoryError."""
    if instances * size < LARGE:
        return np.zeros((instances, size), np.uint8)
    try:
        pages = mmap.mmap(-1, instances * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise MemoryError(f"{instances * size} bytes") from None
    with suppress(OSError, AttributeError):  # systems without huge pages
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8).reshape(instances, size)


CODES = {(True, 8): "b", (False, 8): "B", (True, 16): "h", (False, 16): "H", (True, 32): "i", (False, 32): "I", (True, 64): "q", (False, 64): "Q"}


@dataclass(frozen=True, slots=True)
class Element:
    """`size` bytes from `start` in one instance. A ring turns round: past `end` it goes on at `base`."""

    memory: str
    instance: int
    start: int
    size: int
    base: int
    end: int


def locate(memory: Memory, view: View, instance: int, index: Sequence[int], place: str) -> Element:
    """Address of an index. Raises UserError E0701 outside the memory; `place` names the instruction."""
    bank, address = (index[0], index[1]) if len(index) == 2 else (0, index[0])
    if not 0 <= bank < memory.banks:
        raise fail("E0701", f"{_shown(view, index)} is outside '{memory.name}', which has {memory.banks} banks", place=place)
    base = sum(memory.depths[:bank]) * memory.element.bytes
    size = memory.depths[bank] * memory.element.bytes
    offset = address * (view.unit or memory.element.bytes)
    if memory.kind == "ring":
        offset %= size
    elif offset < 0 or offset + view.element.bytes > size:
        raise fail(
            "E0701", f"{_shown(view, index)} is outside '{memory.name}', which holds {size} bytes{' a bank' if memory.banks > 1 else ''}", place=place
        )
    return Element(memory.name, instance, base + offset, view.element.bytes, base, base + size)


def _shown(view: View, index: Sequence[int]) -> str:
    return f"{view.name}[{', '.join(map(str, index))}]"


def read_bytes(state: State, element: Element) -> bytes:
    """The element's bytes as they are stored."""
    row = state.memories[element.memory][element.instance]
    stop = element.start + element.size
    head = row[element.start : min(stop, element.end)].tobytes()
    return head + row[element.base : element.base + stop - element.end].tobytes() if stop > element.end else head


def write_bytes(state: State, element: Element, data: bytes) -> None:
    """Replaces the element's bytes."""
    row = memoryview(state.memories[element.memory][element.instance])
    first = min(element.size, element.end - element.start)
    row[element.start : element.start + first] = data[:first]
    row[element.base : element.base + element.size - first] = data[first:]


def unpack(view: View, data: bytes) -> list[int]:
    """The element's scalars by lane, row-major, whatever order they are stored in."""
    return unpacker(view)(data)


def unpacker(view: View) -> Callable[[bytes], list[int]]:
    """`unpack` for many elements of a view."""
    kind = view.element.scalar
    stored = struct.Struct(f"<{view.element.lanes}{CODES[kind.signed, kind.bits]}")
    order = [offset * 8 // kind.bits for offset in view.offsets]
    if order == [*range(len(order))]:
        return lambda data: [*stored.unpack(data)]

    def unpacked(data: bytes) -> list[int]:
        numbers = stored.unpack(data)
        return [numbers[at] for at in order]

    return unpacked


def pack(view: View, lanes: Sequence[int]) -> bytes:
    """The inverse of `unpack`; every lane fits the scalar type."""
    kind = view.element.scalar
    stored = [0] * len(lanes)
    for offset, value in zip(view.offsets, lanes, strict=True):
        stored[offset * 8 // kind.bits] = value
    return struct.pack(f"<{view.element.lanes}{CODES[kind.signed, kind.bits]}", *stored)


def record_field(data: bytes, field: RecordField) -> int:
    """One bit field of a record element."""
    return wrap(int.from_bytes(data, "little") >> field.lsb, field.type)


def wrap(value: int, kind: ScalarType) -> int:
    """The value modulo 2**bits, in the type's range."""
    return (value - kind.low) % (1 << kind.bits) + kind.low


def narrow(value: int, kind: ScalarType, overflow: str, fault: Callable[[], Exception]) -> int:
    """The value as a memory or temporary keeps it: overflow `wrap`, `saturate`, or `error`, which raises fault()."""
    if kind.low <= value <= kind.high:
        return value
    if overflow == "error":
        raise fault()
    return wrap(value, kind) if overflow == "wrap" else max(kind.low, min(kind.high, value))
