"""A decoded program: one row per instruction, one numpy column per field; and its in-order queues."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.spec.model import Machine
from toolchain.spec.model.structure import stream_levels

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


@dataclass(frozen=True)
class QueueTable:
    """Queue q holds the instructions item[start[q]:start[q + 1]]; queue, position: int64 [n], where each instruction stands.

    Instructions first[s]..first[s + 1] of stream s are fetched in order, each into its queue while that has room.
    stream, room: int64 [queues], whose instructions a queue holds and how many of them wait in it at most; -1 is any number.
    """

    start: Ints
    item: Ints
    queue: Ints
    position: Ints
    stream: Ints
    room: Ints
    first: Ints


def queue_table(queue: Ints, queues: int) -> QueueTable:
    """Queues of one stream without limit. queue: int64 [n], the queue of each instruction."""
    item = np.argsort(queue, kind="stable")
    start = np.zeros(queues + 1, np.int64)
    np.cumsum(np.bincount(queue, minlength=queues), out=start[1:])
    position = np.empty(len(queue), np.int64)
    position[item] = np.arange(len(queue)) - start[queue[item]]
    zeros = np.zeros(queues, np.int64)
    return QueueTable(start, item, np.ascontiguousarray(queue), position, zeros, zeros - 1, np.array([0, len(queue)], np.int64))


def program_queues(program: Program) -> QueueTable:
    """Every stream's queues, with the depths that the machine declares."""
    machine, table = program.machine, queue_table(program.queue, program.queues)
    stream = np.repeat(np.arange(machine.streams), len(machine.units))
    room = np.array([-1 if unit.depth is None else unit.depth for unit in machine.units] * machine.streams, np.int64)
    first = np.searchsorted(program.stream, np.arange(machine.streams + 1))
    return QueueTable(table.start, table.item, table.queue, table.position, stream, room, first)
