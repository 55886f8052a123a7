"""Queues: who stands where, what fits, which stream fetches."""

from dataclasses import replace

import numpy as np

from tests.token_machine import program, token_machine
from toolchain.isa.queue_table import program_queues, queue_table


def test_instructions_stand_in_their_queues_in_order() -> None:
    table = queue_table(np.array([2, 0, 2, 2, 0]), 4)
    assert [table.item[a:b].tolist() for a, b in zip(table.start[:-1], table.start[1:], strict=True)] == [[1, 4], [], [0, 2, 3], []]
    assert table.position.tolist() == [0, 0, 1, 2, 1]
    assert table.first.tolist() == [0, 5]


def test_streams_and_depths_are_the_machines() -> None:
    machine = token_machine(topology="topology: {core: {count: 2, streams: true}}\n")
    short = replace(machine, units=tuple(replace(u, depth=3 if u.name == "b" else None) for u in machine.units))
    table = program_queues(program(short, [{"unit": 0}, {"unit": 2}], [{"unit": 1}]))
    assert table.stream.tolist() == [0, 0, 0, 1, 1, 1]
    assert table.room.tolist() == [-1, 3, -1, -1, 3, -1]
    assert table.first.tolist() == [0, 2, 3]
    assert table.queue.tolist() == [0, 2, 4]
