"""A region as compiled C: a library made once, a block of memory, a function that is called."""

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.abi.dram_map import DramMap
from toolchain.analysis.compile import load_library
from toolchain.runtime.device import ByteRange, Bytes, Ran
from toolchain.runtime.flat_memory import run_in
from toolchain.runtime.map_checks import check_map
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

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
