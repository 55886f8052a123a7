"""From a region in a bundle to an engine that runs it, by the code generator of its machine."""

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from toolchain.abi.dram_map import DramMap
from toolchain.analysis.checks import prepare_program
from toolchain.analysis.compile import load_library
from toolchain.codegen.vendor_tool import tool_path
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes, CodeDevice, Device, Image, Ran, check_map, run_in
from toolchain.runtime.process_device import ProcessDevice
from toolchain.runtime.region_engine import CodeEngine, PackedEngine, RegionEngine, check_places, engine_of, region_image
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.timing.simulate import time_program

FLAGS = ("-std=c99", "-mtune=generic", "-funroll-loops", "-Wall", "-Wextra", "-Werror", "-pedantic")
ALIGN = 64
"""Bytes; what the block of memory starts on a multiple of."""


@dataclass(frozen=True)
class CompiledRegion:
    """A function and its memory, constants in place."""

    map: DramMap
    function: Callable[[ctypes.c_void_p], None]
    memory: Bytes
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """As a loaded program's."""
        with self._lock:
            return run_in(self.memory, self.map, writes, reads, lambda: self.function(ctypes.c_void_p(self.memory.ctypes.data)))


def compile_c(
    machine: Machine, name: str, held: DramMap, function: str, source: bytes, files: Mapping[str, bytes], constants: Mapping[str, bytes]
) -> CompiledRegion:
    """name: of the region, `function` the one to call. files: that the source is compiled with, by name. constants: by segment.

    Raises UserError E0711 without a C compiler, E0710 where it refuses the source, E1104 for a map that does not fit the machine, or a function
    that is not there.
    """
    check_map(name, machine, held, constants)
    library = load_library("region", source.decode(), FLAGS, tuple((name, data.decode()) for name, data in sorted(files.items())))
    if library is None:
        raise fail("E0711", "there is no C compiler", hint="install gcc or clang, or set TILEWRIGHT_CC")
    called = getattr(library, function, None)
    if called is None:
        raise fail("E1104", f"the C of region '{name}' has no function '{function[:80]}'", hint="build the model again")
    called.restype = None
    memory = _block(held.bytes)
    for segment, data in constants.items():
        first = held.segments[segment].address
        memory[first : first + len(data)] = np.frombuffer(data, np.uint8)
    return CompiledRegion(held, called, memory)


def _block(size: int) -> Bytes:
    room = np.zeros(size + ALIGN, np.uint8)
    first = -room.ctypes.data % ALIGN
    return room[first : first + size]


@dataclass(frozen=True)
class Stored:
    """A region in a bundle. place: of the bundle, as messages print it. native: whether C that it brings may be compiled and run.

    optimise: whether ONNX Runtime may rewrite a graph."""

    bundle: Bundle
    region: RegionProgram
    machine: Machine
    place: str
    native: bool
    optimise: bool = True


Opened = tuple[RegionProgram, RegionEngine]
"""retimed regions say the cycles that the machine's file gives them now."""


def open_region(stored: Stored, device: Device, retimed: bool) -> Opened:
    """retimed: whether the machine's timing is another than when the bundle was made.

    Raises UserError E03xx and E1104 for a damaged region, E05xx and E06xx for a program that must not run, E1113 and E071x for C,
    E1116 and E0713 for a vendor's code.
    """
    return OPENERS[stored.machine.codegen](stored, device, retimed)


def _open_program(stored: Stored, device: Device, retimed: bool) -> Opened:
    image = region_image(stored.bundle, stored.region, stored.machine, stored.place)
    region = replace(stored.region, cycles=cycles_of(image)) if retimed else stored.region
    return region, PackedEngine(stored.machine, region, device.load(image))


def cycles_of(image: Image) -> float:
    """By the cycle model; for a bundle whose cycles were counted with other timing."""
    ready = prepare_program(image.program, image.map.state(image.program.machine, image.constants))
    return time_program(image.program, ready.footprints, ready.provenance, ready.tokens).cycles


def _open_c(stored: Stored, device: Device, retimed: bool) -> Opened:
    """C runs on the host's processor, whatever the device; its cycles stay those of the build."""
    del device, retimed
    region = stored.region
    if not stored.native:
        text = f"region '{region.name}' is C code, which would be compiled and run on this computer"
        raise fail("E1113", text, hint="load it with native=True if you trust where it comes from", place=stored.place)
    if stored.machine.calls_operators:
        check_places(region, stored.place)
        return region, CodeEngine(region, c_of(stored.bundle, region, stored.machine))
    return region, PackedEngine(stored.machine, region, c_of(stored.bundle, region, stored.machine))


def c_of(bundle: Bundle, region: RegionProgram, machine: Machine) -> CompiledRegion:
    """The compiled C of a region in a bundle. Raises UserError E071x and E1104 as `compile_c` does."""
    members = bundle.members
    files, constants = ({name: members[member] for name, member in named.items()} for named in (region.files, region.constants))
    return compile_c(machine, region.name, region.map, region.function, members[region.binary], files, constants)


def _open_graph(stored: Stored, device: Device, retimed: bool) -> Opened:
    """ONNX Runtime stands for the engine, whatever the device; its cycles stay those of the build."""
    del device, retimed
    return stored.region, engine_of(stored.bundle, stored.region, stored.place, stored.optimise)


def _open_code(stored: Stored, device: Device, retimed: bool) -> Opened:
    """A device that does not take a vendor's code has the vendor's own process in its place."""
    del retimed
    machine = stored.machine
    assert machine.tool is not None
    code = stored.bundle.members[stored.region.binary]
    here = device if isinstance(device, CodeDevice) else ProcessDevice((str(tool_path(machine, machine.tool.device)),))
    check_places(stored.region, stored.place)
    return stored.region, CodeEngine(stored.region, here.start(machine.name, code, stored.region.map, {}))


OPENERS: Mapping[str, Callable[[Stored, Device, bool], Opened]] = {"binary": _open_program, "c99": _open_c, "json": _open_graph, "tool": _open_code}
"""By the machine's `codegen`."""
