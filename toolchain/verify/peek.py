"""Reads tensors that never reach DRAM, by the very instructions that would store them.

The region is compiled once more with every tensor stored as well; what stays on chip stands in the same places. After an operation of the
real program is done, the store instructions of its counterpart are executed on a copy of the memories, with a DRAM of their own.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.engines import engine_named
from toolchain.emulator.reference.elements import Element
from toolchain.emulator.reference.engine import Listener, Reference
from toolchain.emulator.state import State
from toolchain.isa.program import Ints
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.regions.region import Region
from toolchain.verify.blame import element_address
from toolchain.verify.verdict import Coordinates

UNWRITTEN = 0x55
"""Stands where no instruction stores anything; a whole tensor is never like it."""


@dataclass(frozen=True)
class Peek:
    """stored: the region, compiled so that every tensor is stored to DRAM."""

    stored: CompiledRegion

    def knows(self, tensor: str) -> bool:
        return tensor in self.stored.map.tensors and bool(len(self._stores(tensor)))

    def read(self, state: State, tensor: str) -> NDArray[Any]:
        """[images, channels, height, width] out of a state of the real program, which stays as it is."""
        beside = self._beside(state, tensor)
        engine_named("fast")(self.stored.program, beside, self._stores(tensor))
        return self.stored.result(beside, tensor)

    def locate(self, state: State, tensor: str, coordinates: Coordinates) -> Element | None:
        """Where the element stands on chip; None where no store reaches it."""
        machine, memory = self.stored.program.machine, self.stored.map.memory
        byte = element_address(machine, self.stored.map, tensor, coordinates)
        runs = self.stored.checked.footprints.runs
        granule, number = byte // machine.memory[memory].granule, machine.memories.index(machine.memory[memory])
        touches = runs.write & (runs.memory == number) & (runs.start <= granule) & (granule < runs.stop)
        stores = np.intersect1d(runs.instruction[touches], self._stores(tensor))
        return _source(Reference(self.stored.program), int(stores[-1]), self._beside(state, tensor), memory, byte) if len(stores) else None

    def _beside(self, state: State, tensor: str) -> State:
        """The real program's memories on chip, and a DRAM in which only the tensor's buffer is marked."""
        machine, held = self.stored.program.machine, self.stored.map
        fresh = held.state(machine, {})
        buffer = held.tensors[tensor]
        first = held.segments[buffer.segment].address + buffer.offset
        fresh.memories[held.memory][0, first : first + buffer.bytes] = UNWRITTEN
        copy = {name: array if name == held.memory else state.memories[name].copy() for name, array in fresh.memories.items()}
        kept = {name: array.copy() for name, array in state.latched.items()}
        return State(machine, copy, fresh.host, kept, {name: array.copy() for name, array in state.written.items()})

    def _stores(self, tensor: str) -> Ints:
        """The instructions that store the tensor, or the tensors that stand in it side by side."""
        region = self.stored.region
        makers = [number for number, bound in enumerate(region.operations) if _part_of(region, bound.tensors["y"], tensor)]
        return np.flatnonzero(np.isin(self.stored.owner, makers) & self.stored.origins.does("store"))


def _part_of(region: Region, tensor: str, whole: str) -> bool:
    """Whether a tensor is another, or stands in it."""
    while tensor != whole and tensor in region.slices:
        tensor = region.slices[tensor].parent
    return tensor == whole


def _source(engine: Reference, index: int, state: State, memory: str, byte: int) -> Element | None:
    """The element on chip that the instruction copies to a byte of DRAM: what it reads last before it writes there."""
    pending: list[Element] = []
    found: list[Element] = []

    def writes(element: Element) -> None:
        if element.memory == memory and element.start <= byte < element.start + element.size and pending:
            found.append(pending[-1])

    engine.execute(index, state, Listener(pending.append, writes))
    return found[-1] if found else None
