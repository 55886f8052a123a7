"""The emulator as a device: one state a program, prepared once; the program is checked before its first run."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from toolchain.abi.dram_map import StoredTensor
from toolchain.abi.packing import view_packing
from toolchain.analysis.checks import check_program
from toolchain.analysis.queues.interlock_counters import program_tokens
from toolchain.analysis.queues.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator.engines import Engine, engine_named
from toolchain.isa.program import Ints, Program
from toolchain.runtime.device import ByteRange, Bytes, Image, Ran
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class EmulatorDevice:
    """engine: fast or reference. check: look for races, deadlocks and wrong addresses before a program runs for the first time."""

    engine: str = "fast"
    check: bool = True

    def load(self, image: Image) -> "EmulatedProgram":
        """Raises UserError E05xx and E06xx for a program that must not run, E1104 for a map that does not fit the machine."""
        check_map(image)
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
        with self._lock:
            start = perf_counter()
            for where, data in writes.items():
                self._at(where)[:] = data
            ready = perf_counter()
            self._set_registers()
            launched = perf_counter()
            self.engine(self.program, self.state, self.order)
            ended = perf_counter()
            data = tuple(self._at(where).copy() for where in reads)
            return Ran(data, ready - start + perf_counter() - ended, launched - ready, ended - launched)

    def _set_registers(self) -> None:
        held = self.image.map
        for segment in held.segments.values():
            if segment.register >= 0:
                self.state.host[held.registers][:, segment.register] = segment.address

    def _at(self, where: ByteRange) -> Bytes:
        first = self.image.map.segments[where.segment].address + where.offset
        return self.state.memories[self.image.map.memory][0, first : first + where.bytes]


def check_map(image: Image) -> None:
    """Raises UserError E1104 where the map names memories or registers that the machine lacks, or goes past their end."""
    machine, held = image.program.machine, image.map
    memory, registers = machine.memory.get(held.memory), machine.memory.get(held.registers)
    if memory is None or memory.kind != "dram" or (held.registers and (registers is None or not registers.host)):
        raise fail("E1104", f"the map of region '{image.name}' names memories that {machine.name} does not have")
    count = registers.depths[0] if registers else 0
    for name, segment in held.segments.items():
        last = segment.address + max(segment.bytes, len(image.constants.get(name, b"")))
        inner = machine.memory.get(segment.memory) if segment.memory else memory
        instances = machine.instances(inner.scope) if inner and segment.memory else 1
        if inner is None or not 0 <= segment.instance < instances:
            raise fail("E1104", f"the segment '{name}' of region '{image.name}' is in a memory that {machine.name} does not have")
        if not 0 <= segment.address <= last <= inner.bytes or not -1 <= segment.register < count:
            raise fail("E1104", f"the segment '{name}' of region '{image.name}' is outside '{held.memory}' of {machine.name}")
    for name in {*held.inputs, *held.outputs}:
        if name not in held.tensors or not _known(machine, held.memory, held.tensors[name]) or held.segments[held.tensors[name].segment].memory:
            raise fail("E1104", f"the tensor '{name}' of region '{image.name}' is stored in a way that {machine.name} does not know")


def _known(machine: Machine, memory: str, stored: StoredTensor) -> bool:
    """Whether the tensor's packing can be made, and is as large as the map says; sizes first, so that nothing large is made in vain."""
    view, layout = machine.view.get(stored.view), next((item for item in machine.layouts if item.name == stored.layout), None)
    if view is None or view.memory != memory or layout is None or sorted(layout.domain) != sorted("nchw"):
        return False
    sizes = dict(zip(layout.domain, stored.extents, strict=False))
    batch, channels, height, width = stored.shape
    inside = stored.channel + channels <= sizes.get("c", 0) and (batch, height, width) == tuple(sizes.get(name) for name in "nhw")
    if not inside or math.prod(stored.extents) * view.element.scalar.bits // 8 > stored.bytes:
        return False
    return view_packing(machine, stored.view, stored.layout, stored.extents).bytes == stored.bytes
