"""Everything a program reads and writes: memories, host registers, latched registers."""

import mmap
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.spec.model import Machine, Memory


@dataclass(frozen=True)
class State:
    """memories[name]: uint8 [instances, bytes], bank after bank. host[name]: int64 [instances, depth].

    latched[name]: int64 [instances, depth, fields of the latched instruction]; written[name]: bool [instances, depth].
    The arrays change while a program runs; the mapping does not.
    """

    machine: Machine
    memories: dict[str, NDArray[np.uint8]]
    host: dict[str, NDArray[np.int64]]
    latched: dict[str, NDArray[np.int64]]
    written: dict[str, NDArray[np.bool_]]

    def copy(self) -> "State":
        """An independent copy, for comparing engines."""
        return State(
            self.machine,
            {k: v.copy() for k, v in self.memories.items()},
            {k: v.copy() for k, v in self.host.items()},
            {k: v.copy() for k, v in self.latched.items()},
            {k: v.copy() for k, v in self.written.items()},
        )


LARGE = 1 << 20
"""Bytes from which on a memory has pages of its own."""


def new_state(machine: Machine) -> State:
    """A zeroed state. Large memories cost nothing until they are touched."""
    plain = [m for m in machine.memories if m.kind != "register"]
    host = [m for m in machine.memories if m.host]
    latched = [m for m in machine.memories if m.latches]
    return State(
        machine,
        {m.name: _zeros(machine.instances(m.scope), m.bytes) for m in plain},
        {m.name: np.zeros((machine.instances(m.scope), m.depths[0]), np.int64) for m in host},
        {m.name: np.zeros((machine.instances(m.scope), m.depths[0], _fields(machine, m)), np.int64) for m in latched},
        {m.name: np.zeros((machine.instances(m.scope), m.depths[0]), np.bool_) for m in latched},
    )


def _fields(machine: Machine, memory: Memory) -> int:
    return len(machine.instruction[memory.latches].fields)


def _zeros(instances: int, size: int) -> NDArray[np.uint8]:
    """Zeros in small pages. Numpy asks for huge ones, of which one touched byte costs two megabytes. Raises MemoryError."""
    if instances * size < LARGE:
        return np.zeros((instances, size), np.uint8)
    try:
        pages = mmap.mmap(-1, instances * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise MemoryError(f"{instances * size} bytes") from None
    with suppress(OSError, AttributeError):  # systems without huge pages
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.uint8).reshape(instances, size)
