"""The interface of a device: programs are loaded once, then run on stored bytes. Hardware joins by the same classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap
from toolchain.isa.program import Program

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
