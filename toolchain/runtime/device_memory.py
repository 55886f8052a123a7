"""Memories of a device that takes commands as they come: DRAM shared with the host, its buffers, and memories on chip that keep their contents."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np

from toolchain.abi.packing import PAGE
from toolchain.analysis.checks import check_program, prepare_program
from toolchain.analysis.state import State, new_state
from toolchain.emulator.engines import engine_named
from toolchain.isa.binary.decode import decode
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program


@dataclass(frozen=True)
class Buffer:
    """Consecutive bytes of DRAM."""

    machine: Machine
    address: int
    bytes: int

    def at(self, view: str, element: int = 0) -> int:
        """The address of an element counted from the buffer's start, in elements of a view: what instructions have in their fields.

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
    _taken: dict[int, Buffer] = field(default_factory=dict[int, Buffer])

    def allocate(self, size: int) -> Buffer:
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
                self._taken[address] = Buffer(self.machine, address, size)
                return self._taken[address]
        raise fail("E1120", f"'{dram.name}' has no room for {size} bytes", hint=f"{len(self._taken)} buffers take {self.used} bytes; free some")

    def free(self, buffer: Buffer) -> None:
        """Raises UserError E1121 for a buffer that is not allocated."""
        self.check(buffer)
        del self._taken[buffer.address]

    def check(self, buffer: Buffer, first: int = 0, count: int = 0) -> None:
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
