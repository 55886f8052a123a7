"""Reads whose value is lost, so that no race for it matters: all that the instruction makes of it goes into transient memories, and is
overwritten there before anything reads it, or never read.

Hardware often reads ahead of knowing whether it needs to: a matrix unit that clears its sums may multiply all the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.hazards.races import WAR, WAW, Hazards, Timeline, event_blocks
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.loop_nest import machine_nests, project
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.rows import iterations
from toolchain.isa.footprint.walk import Occurrence
from toolchain.isa.program import Ints
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.flow import value_flows
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.expr import Const


def lost_reads(prints: Footprints, provenance: Provenance, timeline: Timeline, found: Hazards) -> NDArray[np.bool_]:
    """bool [runs]: the reads whose value is lost, of all instructions of such kinds, and from such memories, as hazards are about.

    A hazard names the last reader of a queue, so all readers of its kind are looked at: a lost read may stand before one that matters.
    """
    rows, runs, kinds = np.flatnonzero(found.kind != WAW), prints.runs, prints.program.kind
    reader = np.where(found.kind == WAR, found.first, found.second)[rows]
    look, lost = _Look(prints, provenance, timeline), np.zeros(len(runs), np.bool_)
    for kind, memory in np.unique(np.stack([kinds[reader], found.memory[rows]], 1), axis=0).tolist():
        reads = np.flatnonzero(~runs.write & (runs.memory == memory) & (kinds[runs.instruction] == kind))
        readers = runs.instruction[reads]
        lost[reads] = ~np.isin(readers, look.used(kind, memory, np.unique(readers)))
    return lost


@dataclass(frozen=True)
class _Look:
    prints: Footprints
    provenance: Provenance
    timeline: Timeline

    def used(self, kind: int, memory: int, readers: Ints) -> Ints:
        """Readers, all of one kind, whose results rest on the memory's values and may be read later."""
        machine = self.prints.program.machine
        name = machine.instructions[kind].name
        written = value_flows(machine_semantics(machine)[name]).get(machine.memories[memory].name)
        if written is None or machine.memories[memory].control:
            return readers
        found = [np.zeros(0, np.int64)]
        for nest in machine_nests(machine)[name]:
            target = nest.occurrence.target
            if nest.occurrence.kind == "write" and isinstance(target, ir.Access) and target.number in written:
                found.append(self._outlives(target.view.memory, self._happening(nest.occurrence, kind, readers)))
        return np.unique(np.concatenate(found))

    def _happening(self, occurrence: Occurrence, kind: int, instructions: Ints) -> Ints:
        """Instructions that reach this access."""
        program, machine = self.prints.program, self.prints.program.machine
        alone = project(machine, replace(occurrence, index=(Const(0),), at=()), self.prints.alike)
        frame = self.provenance.rows(kind).frame(program.row[instructions])
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(part.instructions for part in iterations(frame, alone.path))]))

    def _outlives(self, memory: str, writers: Ints) -> Ints:
        """Writers with a granule that outlives the program or is not overwritten whole by its next access."""
        machine, runs = self.prints.program.machine, self.prints.runs
        if machine.memory[memory].control or not machine.memory[memory].transient:
            return writers
        number, found = machine.memories.index(machine.memory[memory]), [np.zeros(0, np.int64)]
        for start, _, who, write in event_blocks(runs.take(runs.memory == number), self.timeline):
            last = np.append(np.diff(start) != 0, True)
            over = np.append(write[1:] & self._whole[number, self.prints.program.kind[who[1:]]], False)
            read = np.append(False, (who[1:] == who[:-1]) & ~last[:-1])
            mine = write & np.isin(who, writers)
            found.append(who[mine & ~((last | over) & ~read)])
        return np.unique(np.concatenate(found))

    @cached_property
    def _whole(self) -> NDArray[np.bool_]:
        """bool [memories, kinds]: whether each write of an instruction to a memory writes every lane of its element."""
        machine = self.prints.program.machine
        partial = set(_partial(self.prints))
        return np.array([[(m.name, i.name) not in partial for i in machine.instructions] for m in machine.memories])


def _partial(prints: Footprints) -> Iterator[tuple[str, str]]:
    """(memory, instruction) of every write to some lanes only."""
    for name, nests in machine_nests(prints.program.machine).items():
        for nest in nests:
            target = nest.occurrence.target
            if nest.occurrence.kind == "write" and isinstance(target, ir.Access) and not _all_lanes(target):
                yield target.view.memory, name


def _all_lanes(access: ir.Access) -> bool:
    """Whether every lane has a loop of its own."""
    return access.lanes is None or len({lane for lane in access.lanes if isinstance(lane, str)}) == len(access.lanes)
