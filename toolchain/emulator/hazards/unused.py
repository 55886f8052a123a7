"""Reads whose value is lost, so that no race for it matters: all that the instruction makes of it is overwritten before anything reads it,
or stays unread in a memory whose contents a program does not leave to others.

Hardware often reads ahead of knowing whether it needs to: a matrix unit that clears its sums may multiply all the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.hazards.races import WAR, WAW, Hazards, Timeline, event_blocks
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.nest import machine_nests, project
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.rows import iterations
from toolchain.isa.footprint.walk import Occurrence
from toolchain.isa.program import Ints
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.flow import value_flows
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.expr import Const


def without_unused(prints: Footprints, provenance: Provenance, timeline: Timeline, found: Hazards) -> Hazards:
    """The hazards that a result may depend on."""
    rows = np.flatnonzero(found.kind != WAW)
    if not len(rows):
        return found
    reader = np.where(found.kind == WAR, found.first, found.second)
    look, kept = _Look(prints, provenance, timeline), np.ones(len(found), np.bool_)
    for kind in np.unique(prints.program.kind[reader[rows]]).tolist():
        for memory in np.unique(found.memory[rows]).tolist():
            mine = rows[(prints.program.kind[reader[rows]] == kind) & (found.memory[rows] == memory)]
            if len(mine):
                kept[mine] = np.isin(reader[mine], look.used(kind, memory, np.unique(reader[mine])))
    return found.take(kept)


@dataclass(frozen=True)
class _Look:
    prints: Footprints
    provenance: Provenance
    timeline: Timeline

    def used(self, kind: int, memory: int, readers: Ints) -> Ints:
        """Those of the readers, all of one kind, of which something that rests on the memory's values may be read later."""
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
        """Those of the instructions that come to this access at all."""
        program, machine = self.prints.program, self.prints.program.machine
        alone = project(machine, replace(occurrence, index=(Const(0),), at=()), self.prints.alike)
        frame = self.provenance.rows(kind).frame(program.row[instructions])
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(part.instructions for part in iterations(frame, alone.path))]))

    def _outlives(self, memory: str, writers: Ints) -> Ints:
        """Those of the writers of which some granule is not overwritten as a whole by the next access, if there is to be one."""
        machine, runs = self.prints.program.machine, self.prints.runs
        number = machine.memories.index(machine.memory[memory])
        found = [writers] if machine.memory[memory].control else [np.zeros(0, np.int64)]
        for start, _, who, write in event_blocks(runs.take(runs.memory == number), self.timeline):
            same = np.append(np.diff(start) == 0, False)
            after = np.append(write[1:] & self._whole[number, self.prints.program.kind[who[1:]]], False)
            read = np.append(False, (who[1:] == who[:-1]) & same[:-1])
            mine = write & np.isin(who, writers)
            lost = np.where(same, after, machine.memory[memory].transient)
            found.append(who[mine & ~(lost & ~read)])
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
