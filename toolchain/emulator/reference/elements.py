"""Elements of memories as plain Python integers: where an index leads, its bytes, its lanes, its record fields."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolchain.analysis.state import State
from toolchain.spec.errors import fail
from toolchain.spec.model import Memory, RecordField, ScalarType, View

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
    shown = f"{view.name}[{', '.join(map(str, index))}]"
    if not 0 <= bank < memory.banks:
        raise fail("E0701", f"{shown} is outside '{memory.name}', which has {memory.banks} banks", place=place)
    base = sum(memory.depths[:bank]) * memory.element.bytes
    size = memory.depths[bank] * memory.element.bytes
    offset = address * (view.unit or memory.element.bytes)
    if memory.kind == "ring":
        offset %= size
    elif offset < 0 or offset + view.element.bytes > size:
        raise fail("E0701", f"{shown} is outside '{memory.name}', which holds {size} bytes{' a bank' if memory.banks > 1 else ''}", place=place)
    return Element(memory.name, instance, base + offset, view.element.bytes, base, base + size)


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
    kind = view.element.scalar
    stored = struct.unpack(f"<{view.element.lanes}{CODES[kind.signed, kind.bits]}", data)
    return [stored[offset * 8 // kind.bits] for offset in view.offsets]


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
