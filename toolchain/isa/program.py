"""A decoded program: one row per instruction, one numpy column per field."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.spec.model import Machine
from toolchain.spec.model.storage import stream_levels

Ints = NDArray[np.int64]


def stream_index(machine: Machine, level: str, stream: Ints) -> Ints:
    """int64 like `stream`: each stream's index at one of the levels that streams count over. Raises KeyError for another level."""
    count = {outer.name: outer.count for outer in stream_levels(machine.levels)}[level]
    return stream // (machine.streams // machine.instances(level)) % count


@dataclass(frozen=True)
class Program:
    """n instructions of all streams, stream by stream, in program order; every array has shape [n].

    streams: the binary of each stream. kind: index into machine.instructions. stream: which stream.
    offset: byte offset in its stream. unit: index into machine.units (after routing). row: where the
    instruction stands among those of its kind; columns[kind][field][row] is a field's value.
    """

    machine: Machine
    streams: tuple[bytes, ...]
    kind: Ints
    stream: Ints
    offset: Ints
    unit: Ints
    row: Ints
    columns: tuple[Mapping[str, Ints], ...]

    def __len__(self) -> int:
        return len(self.kind)

    def field(self, index: int, name: str) -> int:
        """The value of one field of instruction `index`."""
        return int(self.columns[int(self.kind[index])][name][int(self.row[index])])

    @cached_property
    def queue(self) -> Ints:
        """The in-order queue of each instruction: stream * units + unit."""
        return self.stream * len(self.machine.units) + self.unit

    @cached_property
    def queues(self) -> int:
        """How many queues the device has."""
        return self.machine.streams * len(self.machine.units)

    def label(self, index: int) -> str:
        """How messages name an instruction: `#12 GEMM at 0xc0`, with the stream where there are several."""
        name = self.machine.instructions[int(self.kind[index])].name
        where = f" of stream {int(self.stream[index])}" if self.machine.streams > 1 else ""
        return f"#{index} {name} at {int(self.offset[index]):#x}{where}"
