"""Which instructions must wait for which: read after write, write after read, write after write, of memories and latched registers.

The program's order says which of two accesses comes first. Nothing here knows of counters.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Runs, join_runs
from toolchain.isa.footprint.provenance import Provenance, register_instance
from toolchain.isa.program import Ints, Program

Needs = NDArray[np.int32]


@dataclass(frozen=True)
class Dependences:
    """needs: int32 [n, units], the latest instruction of each unit of the same stream that must be done first; -1: none.

    What needs several instructions of a unit needs the latest alone: a unit finishes in order.
    stores: bool [n], whether an instruction writes what outlives the program: a memory of kind dram.
    """

    needs: Needs
    stores: NDArray[np.bool_]


def find_dependences(program: Program, runs: Runs, provenance: Provenance) -> Dependences:
    """runs: the footprints of the program executed in its own order, sorted by instruction. Streams are looked at one by one."""
    machine = program.machine
    needs = np.full((len(program), len(machine.units)), -1, np.int32)
    accesses = join_runs([runs, *_latched(program, provenance)])
    stream = program.stream[accesses.instruction]
    for memory in np.unique(accesses.memory).tolist():
        here = accesses.memory == memory
        for number in np.unique(stream[here]).tolist():
            chosen = accesses.take(here & (stream == number))
            if chosen.write.any():
                _sweep(chosen.take(np.argsort(chosen.instruction, kind="stable")), program.unit, needs)
    stores = np.zeros(len(program), np.bool_)
    outlives = np.array([m.kind == "dram" for m in machine.memories])
    stores[runs.instruction[runs.write & outlives[runs.memory]]] = True
    return Dependences(needs, stores)


def _latched(program: Program, provenance: Provenance) -> Iterator[Runs]:
    """Accesses to the registers that hold an instruction's fields, one granule an entry."""
    for number, memory in enumerate(program.machine.memories):
        if memory.latches:
            reads, latches = provenance.reads(memory.name), provenance.latches(memory.name)
            slot = register_instance(program, memory.name, reads.instruction) * memory.depths[0] + reads.index
            for who, where, write in ((reads.instruction, slot, False), (latches.instruction, latches.slot, True)):
                yield Runs(who, np.full(len(who), number), np.full(len(who), write), where, where + 1)


def _sweep(runs: Runs, unit: Ints, needs: Needs) -> None:
    """Accesses to one memory, in order: remembers the last reader and the last writer of every unit, for every piece that is
    never cut. An instruction meets what was there before it; a writer that another one follows is left in place, as
    whoever waits for the later one waits for both."""
    edges = np.unique(np.concatenate([runs.start, runs.stop]))
    units = needs.shape[1]
    last = np.full((2 * units, len(edges)), -1, np.int32)
    low: list[int] = np.searchsorted(edges, runs.start).tolist()
    high: list[int] = np.searchsorted(edges, runs.stop).tolist()
    heads: list[int] = np.flatnonzero(np.diff(runs.instruction, prepend=-1)).tolist()
    who: list[int] = runs.instruction.tolist()
    write: list[bool] = runs.write.tolist()
    unit_of: list[int] = unit.tolist()
    for first, stop in zip(heads, [*heads[1:], len(who)], strict=True):
        index = who[first]
        found = needs[index]
        for k in range(first, stop):
            seen = last[:, low[k] : high[k]].max(axis=1) if write[k] else last[:units, low[k] : high[k]].max(axis=1)
            np.maximum(found, seen[:units], out=found)
            if write[k]:
                np.maximum(found, seen[units:], out=found)
        for k in range(first, stop):
            last[unit_of[index] + (0 if write[k] else units), low[k] : high[k]] = index
