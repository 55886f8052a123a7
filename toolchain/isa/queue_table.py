"""The in-order queues of a program: which instructions stand in each, and how they are fetched."""

from dataclasses import dataclass

import numpy as np

from toolchain.isa.program import Ints, Program


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
