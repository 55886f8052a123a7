"""The interface of a device: programs are loaded once, then run on stored bytes whose places lie inside its memories."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap, StoredTensor
from toolchain.abi.packing import view_packing
from toolchain.isa.program import Program
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

Bytes = NDArray[np.uint8]


class ByteRange(NamedTuple):
    """Bytes of a segment of device memory."""

    segment: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Image:
    """A program to load, where its data stands, and the constant bytes of segments."""

    name: str
    program: Program
    map: DramMap
    constants: Mapping[str, bytes]


@dataclass(frozen=True)
class Ran:
    """A run's results, as many bytes as each range asked for, and the seconds that it took on the host's clock: to copy data to and
    from the device, to start the program, and to execute it."""

    data: tuple[Bytes, ...]
    transfer: float
    launch: float
    execute: float


class LoadedProgram(Protocol):
    """A program that a device holds, with its constants in place."""

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """Writes, runs, reads; runs of several threads come one after the other."""
        ...


class ResidentProgram(Protocol):
    """A loaded program with a memory of its own user alone, so that tensors stay there from one run to the next."""

    def step(self, moves: Mapping[ByteRange, ByteRange], writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """Copies within the device's memory, by destination the source, then writes, runs and reads."""
        ...

    def read(self, reads: Sequence[ByteRange]) -> tuple[Bytes, ...]:
        """Bytes as the last run left them."""
        ...


@runtime_checkable
class Residing(Protocol):
    """A loaded program of a device that can keep tensors for one user between runs."""

    def resident(self) -> ResidentProgram:
        """The same program with a memory of its own."""
        ...


@runtime_checkable
class CodeDevice(Protocol):
    """Something that runs code whose form only its vendor knows."""

    def start(self, machine: str, program: bytes, held: DramMap, constants: Mapping[str, bytes]) -> LoadedProgram:
        """program: the code. held: where tensors stand in its memory. constants: bytes by segment. Raises UserError for code that must not run."""
        ...


class Device(Protocol):
    """Something that executes a machine's programs."""

    def load(self, image: Image) -> LoadedProgram:
        """Raises UserError for a program that must not run."""
        ...


def run_in(
    memory: Bytes,
    held: DramMap,
    writes: Mapping[ByteRange, Bytes],
    reads: Sequence[ByteRange],
    execute: Callable[[], object],
    launch: Callable[[], object] = lambda: None,
    moves: Mapping[ByteRange, ByteRange] | None = None,
) -> Ran:
    """held: where the segments stand in the memory. launch: comes before each execution, and is timed apart. moves: copies within the memory, by
    destination the source, before any write. Raises as these two do."""
    start = perf_counter()
    for where, data in [(where, _at(memory, held, source).copy()) for where, source in (moves or {}).items()]:
        _at(memory, held, where)[:] = data
    for where, data in writes.items():
        _at(memory, held, where)[:] = data
    ready = perf_counter()
    launch()
    launched = perf_counter()
    execute()
    ended = perf_counter()
    found = read_from(memory, held, reads)
    return Ran(found, ready - start + perf_counter() - ended, launched - ready, ended - launched)


def read_from(memory: Bytes, held: DramMap, reads: Sequence[ByteRange]) -> tuple[Bytes, ...]:
    """held: where the segments stand in the memory."""
    return tuple(_at(memory, held, where).copy() for where in reads)


def _at(memory: Bytes, held: DramMap, where: ByteRange) -> Bytes:
    first = held.segments[where.segment].address + where.offset
    return memory[first : first + where.bytes]


MOST_BYTES = 1 << 31
"""The most bytes of a block of memory whose size no machine's file gives."""


def check_map(name: str, machine: Machine, held: DramMap, constants: Mapping[str, bytes]) -> None:
    """name: of the region. Raises UserError E1104 where the map names memories or registers that the machine lacks, or goes past their end."""
    if machine.calls_operators:
        _check_block(name, held, constants)
        return
    memory, registers = machine.memory.get(held.memory), machine.memory.get(held.registers)
    if memory is None or memory.kind != "dram" or (held.registers and (registers is None or not registers.host)):
        raise fail("E1104", f"the map of region '{name}' names memories that {machine.name} does not have")
    count = registers.depths[0] if registers else 0
    if held.rooms * held.streams > machine.streams:
        raise fail("E1104", f"the map of region '{name}' is for {held.rooms * held.streams} streams, {machine.name} runs {machine.streams}")
    for part, segment in held.segments.items():
        last = segment.address + max(segment.bytes, len(constants.get(part, b"")))
        inner = machine.memory.get(segment.memory) if segment.memory else memory
        instances = machine.instances(inner.scope) if inner and segment.memory else 1
        if inner is None or not 0 <= segment.instance <= segment.room(held.rooms - 1).instance < instances:
            raise fail("E1104", f"the segment '{part}' of region '{name}' is in a memory that {machine.name} does not have")
        if not 0 <= segment.address <= last <= inner.bytes or not -1 <= segment.register < count:
            raise fail("E1104", f"the segment '{part}' of region '{name}' is outside '{held.memory}' of {machine.name}")
    for tensor in dict.fromkeys((*held.inputs, *held.outputs)):
        stored = held.tensors.get(tensor)
        if stored is None or not _known(machine, held.memory, stored) or held.segments[stored.segment].memory:
            raise fail("E1104", f"the tensor '{tensor}' of region '{name}' is stored in a way that {machine.name} does not know")


def _check_block(name: str, held: DramMap, constants: Mapping[str, bytes]) -> None:
    """The check for a machine whose memory is as large as a region asks. Raises as `check_map`."""
    for part, segment in held.segments.items():
        last = segment.address + max(segment.bytes, len(constants.get(part, b"")))
        if not 0 <= segment.address <= last <= MOST_BYTES or segment.memory:
            raise fail("E1104", f"the segment '{part}' of region '{name}' is outside its block of memory")
    if not constants.keys() <= held.segments.keys():
        raise fail("E1104", f"region '{name}' has constants without a segment")


def _known(machine: Machine, memory: str, stored: StoredTensor) -> bool:
    """Whether the tensor's packing can be made, and is as large as the map says; sizes first, so that nothing large is made in vain."""
    view, layout = machine.view.get(stored.view), next((item for item in machine.layouts if item.name == stored.layout), None)
    if view is None or view.memory != memory or layout is None or sorted(layout.domain) != sorted("nchw"):
        return False
    if len(stored.extents) != len(layout.domain):
        return False
    sizes = dict(zip(layout.domain, stored.extents, strict=True))
    batch, channels, height, width = stored.shape
    count, rows, columns = (sizes.get(name, 0) for name in "nhw")
    if min(count, *stored.shape, *stored.extents) < 1 or batch % count:
        return False
    whole = width == columns and batch // count * height == rows  # images may stand behind each other as rows
    if not whole or stored.channel + channels > sizes.get("c", 0) or math.prod(stored.extents) * view.element.scalar.bits // 8 > stored.bytes:
        return False
    return view_packing(machine, stored.view, stored.layout, stored.extents).bytes == stored.bytes
