"""Memories of a device that takes commands as they come: DRAM shared with the host, its buffers, and kernels of control-memory records (micro-ops).

Each content of records has one copy in DRAM, made once, and stays on chip while it is in use.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np

from toolchain.abi.packing import PAGE
from toolchain.analysis.checks import check_program, prepare_program
from toolchain.analysis.state import State, new_state
from toolchain.emulator import engine_named
from toolchain.isa.assembly import write_line
from toolchain.isa.assembly_line import forms
from toolchain.isa.decode import decode
from toolchain.schedule.kernels.constants import ControlBuffer, pack_records
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.instructions import InstructionWriter
from toolchain.schedule.kernels.kernel import Kernel, Loading
from toolchain.schedule.sandbox import render
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine, Memory
from toolchain.timing.simulate import time_program


@dataclass(frozen=True)
class DeviceBuffer:
    """Consecutive bytes of DRAM."""

    machine: Machine
    address: int
    bytes: int

    def at(self, view: str, element: int = 0) -> int:
        """The address of an element counted from the buffer's start, in elements of a view, as in the fields of instructions.

        Raises UserError E1121 for an element outside the buffer, or a view of another memory.
        """
        found = self.machine.view.get(view)
        if found is None or found.memory != dram_of(self.machine) or not found.unit:
            raise fail("E1121", f"machine '{self.machine.name}' has no view '{view}' of its DRAM")
        if not 0 <= element * found.unit < max(self.bytes, 1):
            raise fail("E1121", f"element {element} of '{view}' is outside the buffer's {self.bytes} bytes")
        return self.address // found.unit + element


def dram_of(machine: Machine) -> str:
    """The memory that host and device share. Raises UserError E1126 for a machine without one."""
    found = next((memory.name for memory in machine.memories if memory.kind == "dram"), None)
    if found is None:
        raise fail("E1126", f"machine '{machine.name}' has no memory of kind dram")
    return found


@dataclass
class DeviceMemory:
    """The allocated parts of DRAM. Buffers begin on a page that is also an element of every view; the first page is never given away."""

    machine: Machine
    _taken: dict[int, DeviceBuffer] = field(default_factory=dict[int, DeviceBuffer])

    def allocate(self, size: int) -> DeviceBuffer:
        """The lowest gap that is large enough. Raises UserError E1120 where there is none."""
        dram = self.machine.memory[dram_of(self.machine)]
        step = math.lcm(PAGE, *(max(view.unit, 1) for view in self.machine.views if view.memory == dram.name))
        ends = [
            (0, PAGE),
            *((b.address, b.address + max(b.bytes, 1)) for b in sorted(self._taken.values(), key=lambda b: b.address)),
            (dram.bytes, 0),
        ]
        for (_, stop), (start, _) in pairwise(ends):
            address = -(-stop // step) * step
            if size >= 0 and address + max(size, 1) <= start:
                self._taken[address] = DeviceBuffer(self.machine, address, size)
                return self._taken[address]
        raise fail("E1120", f"'{dram.name}' has no room for {size} bytes", hint=f"{len(self._taken)} buffers take {self.used} bytes; free some")

    def free(self, buffer: DeviceBuffer) -> None:
        """Raises UserError E1121 for a buffer that is not allocated."""
        self.check(buffer)
        del self._taken[buffer.address]

    def check(self, buffer: DeviceBuffer, first: int = 0, count: int = 0) -> None:
        """Raises UserError E1121 for a buffer that is not allocated, or bytes outside of it."""
        if self._taken.get(buffer.address) is not buffer:
            raise fail("E1121", f"the buffer of {buffer.bytes} bytes at {buffer.address:#x} is not allocated")
        if first < 0 or count < 0 or first + count > buffer.bytes:
            raise fail("E1121", f"bytes {first} to {first + count} are outside the buffer's {buffer.bytes}")

    @property
    def used(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.bytes for buffer in self._taken.values())


class QueueDevice(Protocol):
    """A device that a command queue drives."""

    @property
    def machine(self) -> Machine: ...

    def write(self, address: int, data: bytes) -> None:
        """Bytes into DRAM."""
        ...

    def read(self, address: int, count: int) -> bytes:
        """Bytes out of DRAM."""
        ...

    def execute(self, address: int, count: int) -> float:
        """Runs the `count` bytes of instructions at an address to their end; the cycles that it took."""
        ...

    def contents(self) -> State:
        """The present contents of control memories and registers, for deriving synchronisation."""
        ...


@dataclass
class EmulatedQueueDevice:
    """The emulator. check: each program is checked for races, deadlocks and wrong addresses before it runs."""

    machine: Machine
    check: bool = True
    engine: str = "fast"
    state: State = field(init=False)
    _ran: bool = False

    def __post_init__(self) -> None:
        self.state = new_state(self.machine)
        self._dram = self.state.memories[dram_of(self.machine)][0]

    def write(self, address: int, data: bytes) -> None:
        self._dram[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def read(self, address: int, count: int) -> bytes:
        return self._dram[address : address + count].tobytes()

    def execute(self, address: int, count: int) -> float:
        """Raises UserError E03xx for bytes that are no program, E05xx and E06xx for one that must not run, E07xx where it fails."""
        program = decode(self.machine, [self.read(address, count)], f"commands at {address:#x}")
        kept = [memory.name for memory in self.machine.memories if memory.kind != "dram"] if self._ran else []
        checked = check_program(program, self.state, kept) if self.check else prepare_program(program, self.state)
        cycles = time_program(program, checked.footprints, checked.provenance, checked.tokens).cycles
        engine_named(self.engine)(program, self.state, checked.order)
        self._ran = True
        return cycles

    def contents(self) -> State:
        return self.state


@dataclass(frozen=True)
class Records:
    """A kernel: the bytes of `count` records. In an instruction's fields, `first` and `stop` stand for where it is on chip."""

    content: bytes
    count: int

    @property
    def first(self) -> "RecordAddress":
        return RecordAddress(self, 0)

    @property
    def stop(self) -> "RecordAddress":
        return RecordAddress(self, self.count)


@dataclass(frozen=True)
class RecordAddress:
    """An address in the control memory, `offset` records after a kernel's first."""

    records: Records
    offset: int

    def __add__(self, more: int) -> "RecordAddress":
        return RecordAddress(self.records, self.offset + more)


@dataclass(frozen=True)
class Residency:
    """How kernels get on chip, by the machine's own kernel file: a control memory, and a template that fetches into it."""

    machine: Machine
    memory: Memory
    loading: Loading
    kernel: Kernel

    def fetch(self, slot: int, base: int, count: int) -> str:
        """Assembly that brings `count` records from element `base` of the view in DRAM to `slot`."""
        scope = {"slot": slot, "base": base, "count": count}
        if isinstance(self.loading.code, str):
            return render(self.kernel.folder, self.loading.code, scope)
        batch = InstructionWriter(self.machine).write(self.loading.code, Frame(1, scope.__getitem__), lambda _: "a fetch")
        kinds, ways = [*map(int, batch.kind)], list(forms(self.machine).values())
        return "\n".join(write_line(ways[kind], batch.values(index)) for index, kind in enumerate(kinds))


def residency_of(machine: Machine, kernels: Mapping[str, Kernel]) -> Residency | None:
    """None for a machine whose kernels name no records."""
    for kernel in kernels.values():
        if kernel.loading is not None and kernel.constants:
            return Residency(machine, machine.memory[kernel.constants[0].memory], kernel.loading, kernel)
    return None


@dataclass
class RecordCache:
    """place: allocates DRAM for bytes and copies them there. Where each content is in DRAM for good, and which are on chip now."""

    residency: Residency
    place: Callable[[bytes], DeviceBuffer]
    made: dict[bytes, Records] = field(default_factory=dict[bytes, Records])
    stored: dict[bytes, DeviceBuffer] = field(default_factory=dict[bytes, DeviceBuffer])
    fetches: int = 0

    def __post_init__(self) -> None:
        self.buffer = ControlBuffer(self.residency.memory.elements)

    def make(self, records: Sequence[Mapping[str, int]]) -> Records:
        """The kernel of these records, fields by name, 0 where left out; the same one for the same content.

        Raises UserError E1123 for an unknown field or no record, E1006 for a value that a field does not hold.
        """
        element = self.residency.memory.element
        known = {part.name for part in element.record}
        strange = sorted({name for record in records for name in record} - known)
        if strange or not records:
            what = f"a field '{strange[0]}'" if strange else "no records"
            raise fail("E1123", f"a kernel of '{self.residency.memory.name}' has {what}", hint=f"fields: {', '.join(sorted(known))}")
        columns = {name: np.array([record.get(name, 0) for record in records], np.int64) for name in sorted(known)}
        content = pack_records(element, columns, len(records), f"a kernel of '{self.residency.memory.name}'")
        return self.made.setdefault(content, Records(content, len(records)))

    def need(self, kernels: Sequence[Records]) -> str:
        """Assembly that fetches those of them that are not on chip. Raises UserError E1004 where they do not fit at once."""
        size = self.residency.memory.element.bytes
        lines: list[str] = []
        for content, slot in self.buffer.need(list(dict.fromkeys(k.content for k in kernels)), size):
            if content not in self.stored:
                self.stored[content] = self.place(content)
            lines.append(self.residency.fetch(slot, self.stored[content].at(self.residency.loading.view), len(content) // size))
            self.fetches += 1
        return "\n".join(lines)

    def address(self, where: RecordAddress) -> int:
        """The record on chip now. Raises KeyError for a kernel that is not."""
        return self.buffer.place(where.records.content) + where.offset
