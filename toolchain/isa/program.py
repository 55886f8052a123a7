"""A decoded program: one row per instruction, one numpy column per field; its in-order queues; and the origin of each instruction: operation, step
and instance, by number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

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


NONE = -1


BRING = "bring"
"""The kind of a step that brings a tile to where it waits for its loads."""


class StepName(NamedTuple):
    """kind: load, BRING, start, compute, finish or store; `constants` for loads of records. place: of the kernel, empty for constants."""

    kind: str
    place: str


@dataclass(frozen=True)
class Origins:
    """steps: the names that occur. operation: index in the region. step: index in `steps`. instance: which of its operation's steps, in the order
    in which they run, counted from 0; all int64 [n], NONE where there is none: tokens are passed on, a program begins or ends."""

    steps: tuple[StepName, ...]
    operation: Ints
    step: Ints
    instance: Ints

    def taken(self, source: Ints) -> "Origins":
        """Origins of instructions made from these, by their indices; NONE for one that was made from none."""
        return Origins(self.steps, *(np.append(column, NONE)[source] for column in (self.operation, self.step, self.instance)))

    def renumbered(self, order: Sequence[int]) -> "Origins":
        """These origins with other indices for operations, by the present ones."""
        return replace(self, operation=np.array([*order, NONE], np.int64)[self.operation])

    def only(self, mine: NDArray[np.bool_]) -> "Origins":
        """These origins for some of the instructions, NONE for the others. mine: bool [n]."""
        return replace(self, **{name: np.where(mine, getattr(self, name), NONE) for name in ("operation", "step", "instance")})

    def does(self, *kinds: str) -> NDArray[np.bool_]:
        """bool [n]: whether an instruction belongs to a step of one of these kinds."""
        wanted = [number for number, name in enumerate(self.steps) if name.kind in kinds]
        return np.isin(self.step, wanted)


def join_origins(parts: Sequence[Origins]) -> Origins:
    """The origins of instructions that follow one another."""
    steps = tuple(dict.fromkeys(name for part in parts for name in part.steps))
    numbers = [np.array([*(steps.index(name) for name in part.steps), NONE], np.int64) for part in parts]
    step = np.concatenate([own[part.step] for own, part in zip(numbers, parts, strict=True)])
    return Origins(steps, np.concatenate([part.operation for part in parts]), step, np.concatenate([part.instance for part in parts]))


class Run(NamedTuple):
    """length: how many neighbouring instructions of one step there are."""

    length: int
    operation: int
    step: StepName | None
    instance: int


def origins_of(runs: Sequence[Run]) -> Origins:
    """One entry for each instruction of all runs."""
    steps = {run.step: None for run in runs if run.step is not None}
    number = {step: index for index, step in enumerate(steps)}
    rows = np.array([(r.operation, number[r.step] if r.step else NONE, r.instance) for r in runs], np.int64).reshape(-1, 3)
    operation, step, instance = np.repeat(rows, [run.length for run in runs], axis=0).T
    return Origins(tuple(steps), operation, step, instance)


def runs_of(origins: Origins) -> list[Run]:
    """Runs that `origins_of` makes the same of."""
    rows = np.stack([origins.operation, origins.step, origins.instance], axis=1)
    first = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)])
    counts = np.diff(np.append(first, len(rows))).tolist()
    names = [*origins.steps, None]
    return [Run(count, operation, names[step], instance) for count, (operation, step, instance) in zip(counts, rows[first].tolist(), strict=True)]
