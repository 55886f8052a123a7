"""The emulator as a device: one state a program, prepared once; the program is checked before its first run."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolchain.analysis.checks import check_program
from toolchain.analysis.queues.interlock_counters import program_tokens
from toolchain.analysis.queues.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator.engines import Engine, engine_named
from toolchain.isa.program import Ints, Program
from toolchain.runtime.device import ByteRange, Bytes, Image, Ran, check_map, run_in


@dataclass(frozen=True)
class EmulatorDevice:
    """engine: fast or reference. check: look for races, deadlocks and wrong addresses before a program runs for the first time."""

    engine: str = "fast"
    check: bool = True

    def load(self, image: Image) -> "EmulatedProgram":
        """Raises UserError E05xx and E06xx for a program that must not run, E1104 for a map that does not fit the machine."""
        check_map(image.name, image.program.machine, image.map, image.constants)
        state = image.map.state(image.program.machine, image.constants)
        order = check_program(image.program, state).order if self.check else issue_order(image.program, None, program_tokens(image.program, state))
        return EmulatedProgram(image, state, order, engine_named(self.engine))


@dataclass(frozen=True)
class EmulatedProgram:
    """A program with its own memories; what one run leaves on chip is there for the next, as on hardware."""

    image: Image
    state: State
    order: Ints
    engine: Engine
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def program(self) -> Program:
        return self.image.program

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """Raises UserError E07xx where an instruction fails."""
        memory = self.state.memories[self.image.map.memory][0]
        with self._lock:
            return run_in(memory, self.image.map, writes, reads, lambda: self.engine(self.program, self.state, self.order), self._set_registers)

    def _set_registers(self) -> None:
        self.image.map.set_registers(self.program.machine, self.state)
