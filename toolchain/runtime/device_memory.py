"""Buffers in a device's DRAM: allocated, freed, addressed in the elements of any view."""

import math
from dataclasses import dataclass, field
from itertools import pairwise

from toolchain.abi.packing import PAGE
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


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
