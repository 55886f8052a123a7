"""Ports of banks that each instruction uses, from its footprint: in a cycle only so many units reach a bank."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Footprints, Runs
from toolchain.isa.program import Ints
from toolchain.spec.arrays import distinct
from toolchain.spec.model import Machine, Memory, Ports


@dataclass(frozen=True)
class BankPorts:
    """Instruction i uses ports number[first[i]] to number[first[i + 1] - 1], with the rank beside each: lower goes first, equals take turns.

    room: int64 [ports], units that each serves in one cycle. ranks: how many there are.
    """

    first: Ints
    number: Ints
    rank: Ints
    room: Ints
    ranks: int


def bank_ports(machine: Machine, prints: Footprints) -> BankPorts | None:
    """All ports of all banks whose number is limited; None where none is, so that no time is spent on them."""
    found = [(number, memory, memory.ports) for number, memory in enumerate(machine.memories) if memory.ports]
    if not found:
        return None
    rooms, orders, instructions, uses, base = list[Ints](), list[Ints](), list[Ints](), list[Ints](), 0
    for number, memory, ports in found:
        instances = 1 if memory.name in prints.alike else machine.instances(memory.scope)
        for room, chosen in _kinds(ports, prints.runs):
            who, bank = _banks(prints.runs.take(chosen & (prints.runs.memory == number)), memory, instances)
            instructions.append(who)
            uses.append(base + bank)
            rooms.append(np.full(memory.banks * instances, room, np.int64))
            orders.append(np.full(memory.banks * instances, number, np.int64))
            base += memory.banks * instances
    who, number = np.divmod(distinct(np.concatenate(instructions) * base + np.concatenate(uses)), base)
    first = np.searchsorted(who, np.arange(len(prints.program) + 1)).astype(np.int64)
    order = np.array([_ranks(machine, memory.ports or Ports()) for memory in machine.memories], np.int64)
    rank = order[np.concatenate(orders)[number], prints.program.unit[who]]
    return BankPorts(first, number, rank, np.concatenate(rooms), len(machine.units) + 1)


def _kinds(ports: Ports, runs: Runs) -> list[tuple[int, NDArray[np.bool_]]]:
    """Ports of one kind in each bank, where they are limited, and the runs that go through them."""
    through = ((ports.read, ~runs.write), (ports.write, runs.write), (ports.either, np.ones(len(runs), np.bool_)))
    return [(count, chosen) for count, chosen in through if count]


def _ranks(machine: Machine, ports: Ports) -> list[int]:
    """The rank of each unit."""
    return [ports.priority.index(unit.name) if unit.name in ports.priority else len(ports.priority) for unit in machine.units]


def _banks(runs: Runs, memory: Memory, instances: int) -> tuple[Ints, Ints]:
    """(instruction, bank) of every bank that a run reaches, those of all instances counted on."""
    whole = np.tile(np.array(memory.depths, np.int64) * memory.element.bytes // memory.granule, instances)
    bounds = np.cumsum(whole)
    first, stop = np.searchsorted(bounds, runs.start, "right"), np.searchsorted(bounds, runs.stop) + 1
    count = stop - first
    inside = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(runs.instruction, count), np.repeat(first, count) + inside
