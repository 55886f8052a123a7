"""Hardware interlocks: address conflicts that hold an instruction, fences, and instructions that occupy several units."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from toolchain.analysis.dependences import Flags, Needs, accesses_by_memory, no_needs, sweep
from toolchain.isa.footprint.footprints import Runs, granules
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.spec.model import Interlock, Machine


@dataclass(frozen=True)
class Held:
    """int32 [n, units]: the latest instruction of each unit of the same stream for which the hardware holds an instruction; -1: none.

    done: until that one is done. begun: until it has begun long enough, because the two units run coupled; later than the one in `done`.
    """

    done: Needs
    begun: Needs

    @property
    def latest(self) -> Needs:
        """The later of both: it and all before it in its unit come first."""
        return np.maximum(self.done, self.begun)


def is_ordered(machine: Machine) -> bool:
    """Whether the hardware orders anything without being told."""
    return machine.interlock is not None or any(i.occupies for i in machine.instructions)


def held_instructions(program: Program, runs: Runs, provenance: Provenance) -> Held:
    """runs: the footprints of the program executed in its own order, sorted by instruction."""
    held = Held(no_needs(program), no_needs(program))
    if not is_ordered(program.machine):
        return held
    if program.machine.interlock is not None:
        _compare(program, program.machine.interlock, accesses_by_memory(program, runs, provenance), held)
        _fence(program, program.machine.interlock, held.done)
    _occupy(program, held.done)
    held.begun[held.begun <= held.done] = -1
    return held


def _compare(program: Program, interlock: Interlock, accesses_of: Iterable[tuple[int, Runs]], held: Held) -> None:
    """Conflicts that the interlock sees."""
    machine = program.machine
    blocks = _blocks(machine, interlock)
    watched = [(into, _watched(machine, interlock, coupled)) for into, coupled in ((held.done, False), (held.begun, True))]
    for memory, accesses in accesses_of:
        if any(pairs[memory].any() for _, pairs in watched):
            found = no_needs(program)
            sweep(_coarse(accesses, blocks.get(memory)), program.unit, found)
            for into, pairs in watched:
                np.maximum(into, found, out=into, where=pairs[memory][program.unit])
    if interlock.looks_back:
        for into, _ in watched:
            into[into < np.arange(len(program))[:, None] - interlock.looks_back] = -1


def _watched(machine: Machine, interlock: Interlock, coupled: bool) -> Flags:
    """bool [memories, units, units]: whether an instruction of the first unit waits for those of the second, for what they do with a memory."""
    units, memories = [u.name for u in machine.units], [m.name for m in machine.memories]
    found = np.zeros((len(memories), len(units), len(units)), np.bool_)
    for watch in interlock.watches:
        for name in watch.memories if (watch.lag is not None) == coupled else ():
            found[memories.index(name), units.index(watch.target), units.index(watch.source)] = True
    return found


def _blocks(machine: Machine, interlock: Interlock) -> Mapping[int, int]:
    """By memory, how many granules the interlock takes for one."""
    sizes = dict(interlock.granularity)
    there = ((k, m, sizes[m.name]) for k, m in enumerate(machine.memories) if m.name in sizes)
    return {k: max(size * m.element.bytes // m.granule, 1) if size else granules(m) for k, m, size in there}


def _coarse(runs: Runs, block: int | None) -> Runs:
    """The accesses as the interlock sees them, in blocks of so many granules."""
    if block is None:
        return runs
    return Runs(runs.instruction, runs.memory, runs.write, runs.start // block, -(-runs.stop // block))


def _fence(program: Program, interlock: Interlock, held: Needs) -> None:
    """A fence comes after the latest of every unit before it in its stream, and everything after it comes after it."""
    fences = np.isin(program.kind, [k for k, i in enumerate(program.machine.instructions) if i.name in interlock.fences])
    if interlock.window == 1:
        fences[:] = True
    if not fences.any():
        return
    opens = np.searchsorted(program.stream, program.stream)
    for unit in range(held.shape[1]):
        mine = program.unit == unit
        held[fences, unit] = _latest_before(mine, opens)[fences]
        np.maximum(held[:, unit], _latest_before(mine & fences, opens), out=held[:, unit])


def _occupy(program: Program, held: Needs) -> None:
    """Order the instructions that occupy a unit, those in other units' queues included."""
    machine, opens = program.machine, np.searchsorted(program.stream, program.stream)
    for unit, its in enumerate(machine.units):
        guest = np.isin(program.kind, [k for k, i in enumerate(machine.instructions) if its.name in i.occupies]) & (program.unit != unit)
        there = guest | (program.unit == unit)
        for own in range(len(machine.units)) if guest.any() else ():
            queued = program.unit == own
            after = there & (~queued | guest if machine.units[own].overlaps else ~queued)
            np.maximum(held[:, own], _latest_before(there & queued, opens), out=held[:, own], where=after)


def _latest_before(chosen: Flags, opens: Ints) -> Ints:
    """For each instruction the latest of the chosen ones before it in its stream, which begins at `opens`; -1: none."""
    number = np.where(chosen, np.arange(len(chosen)), -1)
    latest = np.concatenate([[-1], np.maximum.accumulate(number)[:-1]])[: len(chosen)]
    return np.where(latest >= opens, latest, -1)
