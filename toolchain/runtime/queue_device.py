"""A device that takes commands as they come: DRAM that host and device share, and memories on chip that keep what they hold."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from toolchain.analysis.checks import check_program, prepare_program
from toolchain.analysis.state import State, new_state
from toolchain.emulator.engines import engine_named
from toolchain.isa.binary.decode import decode
from toolchain.runtime.device_memory import dram_of
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program


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
