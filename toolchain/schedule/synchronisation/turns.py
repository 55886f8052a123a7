"""Turns at the ports of banks: a unit that only moves data waits, by a token, for those before it in the program that read the same.

Two units that read one buffer at the same time share the ports of its banks, wherever it stands. Such are a pool and the convolutions of its block,
which read the block's input. The order of the region has it beside one that reads something else, but as all that it reads is there, it would begin
with the first of them.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from toolchain.analysis.dependences import Needs, no_needs, sweep
from toolchain.isa.footprint.footprints import Footprints, Runs
from toolchain.isa.program import Ints, Program
from toolchain.timing.cost import BankPorts, bank_ports


def find_turns(prints: Footprints, free: Collection[int]) -> Needs | None:
    """For each instruction of the units `free` before which another unit reads the same elements of a memory with limited ports: the latest one of
    every other unit before it that needs one of its ports. None where there is none. prints: of the program in its order."""
    program, ports = prints.program, bank_ports(prints.program.machine, prints)
    if ports is None or not free:
        return None
    limited = np.array([bool(memory.ports) for memory in program.machine.memories])
    reads = prints.runs.take(limited[prints.runs.memory] & ~prints.runs.write)
    met, same = (_met(program, runs, free) for runs in (_of_ports(ports), reads))
    met[~(same >= 0).any(axis=1)] = -1
    return met if (met >= 0).any() else None


def _of_ports(ports: BankPorts) -> Runs:
    """Each port that an instruction needs as a run of one granule."""
    who = np.repeat(np.arange(len(ports.first) - 1), np.diff(ports.first))
    return Runs(who, np.zeros_like(who), np.zeros(len(who), np.bool_), ports.number, ports.number + 1)


def _met(program: Program, runs: Runs, free: Collection[int]) -> Needs:
    """For each instruction of the free units, the latest of every other unit before it that touches one of its locations."""
    moves, found = np.isin(program.unit, list(free)), no_needs(program)
    for memory in np.unique(runs.memory).tolist():
        own = runs.take(runs.memory == memory)
        sweep(replace(own, write=moves[own.instruction]), program.unit, found)
    found[~moves] = -1
    found[:, list(free)] = -1
    return found


def placed_turns(turns: Needs, order: Ints) -> Needs:
    """The same where the instructions stand in another order, int64 [n]; those of the units that are waited for keep theirs."""
    at = np.append(np.argsort(order), -1)
    return at[turns[order]].astype(turns.dtype)
