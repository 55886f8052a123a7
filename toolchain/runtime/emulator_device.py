"""The emulator as a device: one state a program, prepared once and checked before its first run; in this process, or served to another one.

The served form is the far side of `toolchain.runtime.process_device`, and an example of one.
"""

import mmap
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from toolchain.abi.dram_map import DramMap, Segment
from toolchain.analysis.checks import check_program
from toolchain.analysis.interlock import program_tokens
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator import Engine, engine_named
from toolchain.isa.decode import decode
from toolchain.isa.program import Ints, Program
from toolchain.isa.program_file import read_container
from toolchain.runtime.device import ByteRange, Bytes, Image, LoadedProgram, Ran, check_map, read_from, run_in
from toolchain.runtime.process_device import PAGE
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine


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
    """A program with its own memories; data that one run leaves on chip is there for the next, as on hardware."""

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
        return self.step({}, writes, reads)

    def resident(self) -> "EmulatedProgram":
        """With memories of its own; the program was checked when it was loaded."""
        state = self.image.map.state(self.program.machine, self.image.constants)
        return EmulatedProgram(self.image, state, self.order, self.engine)

    def step(self, moves: Mapping[ByteRange, ByteRange], writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """As `run`, after copies within its memory: by destination the source."""
        with self._lock:
            return run_in(
                self._memory, self.image.map, writes, reads, lambda: self.engine(self.program, self.state, self.order), self._set_registers, moves
            )

    def read(self, reads: Sequence[ByteRange]) -> tuple[Bytes, ...]:
        """Bytes as the last run left them."""
        with self._lock:
            return read_from(self._memory, self.image.map, reads)

    @property
    def _memory(self) -> Bytes:
        return self.state.memories[self.image.map.memory][0]

    def _set_registers(self) -> None:
        self.image.map.set_registers(self.program.machine, self.state)


WHOLE = "memory"
"""The one segment, which stands for all of the shared memory."""


def serve(machine: Machine, lines: Iterable[str]) -> Iterator[str]:
    """The answer to each line. lines: without line ends."""
    loaded: _Loaded | None = None
    for line in lines:
        try:
            word, *rest = line.split()
            if word == "load" and loaded is None:
                loaded = _load(machine, rest)
            elif word == "run" and loaded is not None and not rest:
                loaded.run()
            else:
                raise _unknown(line)
            yield "done"
        except UserError as error:
            yield f"failed {error.diagnostics[0].code} {error.diagnostics[0].message}"
        except ValueError:
            yield f"failed {_unknown(line)}"


def _unknown(line: str) -> UserError:
    return fail("E0713", f"'{line[:80]}' is no line of the protocol, or not its turn")


@dataclass(frozen=True)
class _Loaded:
    """size: of the memory that is shared, in bytes."""

    memory: Bytes
    size: int
    program: LoadedProgram

    def run(self) -> None:
        whole = ByteRange(WHOLE, 0, self.size)
        (data,) = self.program.run({whole: self.memory[: self.size]}, [whole]).data
        self.memory[: self.size] = data


def _load(machine: Machine, words: list[str]) -> _Loaded:
    """Raises ValueError for other words, UserError for a program that must not run."""
    path, memory, program, *registers = words
    size, length = int(memory), int(program)
    shared = _mapped(Path(path))
    if size % PAGE or not 0 <= size <= size + length <= len(shared):
        raise ValueError(path)
    streams = read_container(machine, shared[size : size + length].tobytes(), "program")
    image = Image("program", decode(machine, streams, "program"), _map(machine, size, registers), {WHOLE: shared[:size].tobytes()})
    return _Loaded(shared, size, EmulatorDevice().load(image))


def _mapped(path: Path) -> Bytes:
    """Raises UserError E0001 for a file that cannot be mapped."""
    try:
        with path.open("r+b") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8)
    except OSError as error:
        raise fail("E0001", f"cannot map the file: {error.strerror}", place=str(path)) from None


def _map(machine: Machine, size: int, registers: list[str]) -> DramMap:
    """The whole memory as a segment, and one more for each register."""
    pairs = [(int(index), int(address)) for index, address in (word.split("=") for word in registers)]
    segments = {WHOLE: Segment(0, size), **{f"register{index}": Segment(address, 0, index) for index, address in pairs}}
    dram = next((memory.name for memory in machine.memories if memory.kind == "dram"), "")
    host = next((memory.name for memory in machine.memories if memory.host), "") if pairs else ""
    return DramMap(dram, host, segments, {}, (), ())
