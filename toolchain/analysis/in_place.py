"""Hazards within one instruction: elements that one of its iterations writes and another reads, and pipelines that read too early.

Addresses must not depend on data: control memories are loaded from memories that no instruction stores to, and not by their readers.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from toolchain.isa.checks import MOST
from toolchain.isa.footprint.footprints import Footprints, Runs, element_runs
from toolchain.isa.footprint.loop_nest import Nest, Steps, machine_nests, memories_alike, pipelined_steps, project
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.rows import LIMIT, Rows, iterations
from toolchain.isa.footprint.text import range_text
from toolchain.isa.footprint.vector import ControlContents
from toolchain.isa.footprint.walk import Loop
from toolchain.isa.program import Ints, Program
from toolchain.spec.arrays import distinct
from toolchain.spec.errors import Diagnostic, fail

MOST_SUSPECTS = 21
"""Instructions that are looked at closely; more conflicts than are ever shown."""


def self_conflicts(provenance: Provenance, prints: Footprints) -> list[Diagnostic]:
    """E0609 for each such instruction. Those whose reads and writes are apart, nearly all, are passed over at once."""
    controls = ControlContents(provenance)
    return [d for index in _suspects(prints)[:MOST_SUSPECTS].tolist() if (d := _look(provenance, controls, index))]


def _suspects(prints: Footprints) -> Ints:
    """int64: instructions that are not in_place and read some granule that they also write."""
    program, plain = prints.program, np.array([not i.in_place for i in prints.program.machine.instructions])
    return overlapping(prints.runs.take(plain[program.kind][prints.runs.instruction]))


def overlapping(runs: Runs) -> Ints:
    """int64: the instructions that read some granule which they also write. runs: sorted and merged."""
    if not len(runs):
        return np.zeros(0, np.int64)
    (start, stop), read = _end_to_end(runs), ~runs.write
    begun = np.searchsorted(start[runs.write], stop[read])
    ended = np.searchsorted(stop[runs.write], start[read], side="right")
    return distinct(runs.instruction[read][begun > ended])


def _end_to_end(runs: Runs) -> tuple[Ints, Ints]:
    """int64: start and stop of every run where those of each (instruction, memory) have room for themselves."""
    group, start, stop = _group(runs), runs.start, runs.stop
    if (int(group.max()) + 1) * (int(stop.max()) + 1) >= 1 << 62:  # too far apart to lay them end to end: their ranks are not
        places = distinct(np.concatenate([start, stop]))
        start, stop = np.searchsorted(places, start), np.searchsorted(places, stop)
    span = int(stop.max()) + 1
    return group * span + start, group * span + stop


def touches_both(runs: Runs) -> Ints:
    """int64: the first run of every (instruction, memory) that is both read and written. runs: sorted."""
    heads = np.flatnonzero(np.diff(_group(runs), prepend=-1))
    return heads[np.maximum.reduceat(runs.write, heads) > np.minimum.reduceat(runs.write, heads)] if len(heads) else heads


def _group(runs: Runs) -> Ints:
    return runs.instruction * 256 + runs.memory


def _look(provenance: Provenance, controls: ControlContents, index: int) -> Diagnostic | None:
    program, kind = provenance.program, int(provenance.program.kind[index])
    machine = program.machine
    nests = machine_nests(machine)[machine.instructions[kind].name]
    for read in (n for n in nests if n.occurrence.kind == "read"):
        for write in (n for n in nests if n.occurrence.kind == "write" and n.access.view.memory == read.access.view.memory):
            granule = _meeting(provenance, controls, index, read, write)
            if granule is not None:
                memory = machine.memories.index(machine.memory[read.access.view.memory])
                where = range_text(machine, memory, granule, granule + 1, machine.memories[memory].name in memories_alike(machine))
                message = f"{program.label(index)} reads {where}, which another of its own iterations writes"
                return Diagnostic(
                    "E0609", message, hint=f"only an instruction that declares in_place may; {machine.instructions[kind].name} does not"
                )
    return None


def _meeting(provenance: Provenance, controls: ControlContents, index: int, read: Nest, write: Nest) -> int | None:
    """A granule that is read in one iteration of the loops around both accesses and written in another."""
    shared = [a for a, b in zip(read.occurrence.path, write.occurrence.path, strict=False) if a == b and isinstance(a, Loop)]
    names = [loop.var for loop in shared]
    (granule, when), (other, then) = (_visits(provenance, controls, index, nest, names) for nest in (read, write))
    both = np.concatenate([granule, other])
    spots, spot = np.unique(both, return_inverse=True)
    times = np.unique(np.concatenate([when, then]), axis=0, return_inverse=True)[1].reshape(-1)
    early, late = np.full(len(spots), len(times)), np.full(len(spots), -1)
    np.minimum.at(early, spot, times)
    np.maximum.at(late, spot, times)
    common = np.isin(spots, granule) & np.isin(spots, other) & (early < late)
    return int(spots[np.argmax(common)]) if common.any() else None


def _visits(provenance: Provenance, controls: ControlContents, index: int, nest: Nest, names: list[str]) -> tuple[Ints, Ints]:
    """(granule [visits], iteration [visits, len(names)])"""
    program, machine = provenance.program, provenance.program.machine
    whole = project(machine, nest.occurrence, memories_alike(machine), frozenset(names))
    path = tuple(replace(item, step=None) if isinstance(item, Loop) else item for item in whole.path)
    rows = Rows(program, int(program.kind[index]), provenance.rows(int(program.kind[index])).instructions, provenance.read, controls.read)
    granules, times = [np.zeros(0, np.int64)], [np.zeros((0, len(names)), np.int64)]
    for frame in iterations(rows.frame(program.row[[index]]), path):
        index_of = [frame.evaluate(e) for e in nest.occurrence.index]
        runs = element_runs(
            machine, nest.access.view, np.arange(len(frame)), False, frame.evaluate(whole.instance), index_of, np.ones_like(frame.rows), 0
        )[0]
        count = runs.stop - runs.start
        row = np.repeat(np.arange(len(runs)), count)
        granules.append(runs.start[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count))
        stamp = np.stack([frame.variables[n] for n in names], 1) if names else np.zeros((len(frame), 0), np.int64)
        times.append(stamp[runs.instruction[row]])
    return np.concatenate(granules), np.concatenate(times)


def control_conflicts(prints: Footprints) -> list[Diagnostic]:
    """E0608 for each load of control from a place that is stored to, and each instruction that reads control which it writes."""
    return [*_overwritten(prints), *_own(prints)]


def _own(prints: Footprints) -> Iterator[Diagnostic]:
    runs, program = prints.runs, prints.program
    control = np.array([m.control for m in program.machine.memories])
    mine = runs.take(control[runs.memory])
    for row in touches_both(mine)[: MOST + 1].tolist():
        name = program.machine.memories[int(mine.memory[row])].name
        message = f"{program.label(int(mine.instruction[row]))} reads the control memory '{name}' and writes it"
        yield Diagnostic("E0608", message, hint="load it with an instruction before")


def _overwritten(prints: Footprints) -> Iterator[Diagnostic]:
    """E0608 where the program stores over data that it loads a control memory from: its addresses would depend on data."""
    feeds, runs = prints.feeds, prints.runs
    for memory in distinct(feeds.memory).tolist():
        sources, stores = feeds.take(feeds.memory == memory), runs.take((runs.memory == memory) & runs.write)
        if not len(stores):
            continue
        rank = np.argsort(stores.start, kind="stable")
        stores = stores.take(rank)
        reach = np.maximum.accumulate(stores.stop)
        # The last store that starts before a source ends: some store meets the source if the farthest of those before it does.
        last = np.searchsorted(stores.start, sources.stop) - 1
        meets = (last >= 0) & (reach[np.maximum(last, 0)] > sources.start)
        for row in np.flatnonzero(meets)[: MOST + 1].tolist():
            writer = int(np.argmax((stores.start < sources.stop[row]) & (stores.stop > sources.start[row])))
            low, high = max(int(stores.start[writer]), int(sources.start[row])), min(int(stores.stop[writer]), int(sources.stop[row]))
            program = prints.program
            loader, storer = program.label(int(sources.instruction[row])), program.label(int(stores.instruction[writer]))
            message = f"{loader} loads control from {range_text(program.machine, memory, low, high)}, where {storer} stores"
            yield Diagnostic("E0608", message, hint="addresses must not depend on data that the program computes")


LONGEST = 1 << 22
"""Steps of one instruction that are still followed."""
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Repeats:
    """One row for each instruction and memory, the first such meeting in it: step `first` wrote the granule, step `second` touches it.

    instruction, memory, first, second, granule: int64 [n]
    """

    instruction: Ints
    memory: Ints
    first: Ints
    second: Ints
    granule: Ints

    def __len__(self) -> int:
        return len(self.instruction)

    def severe(self, program: Program, error: bool) -> "Repeats":
        """The findings that are errors, or those that are warnings."""
        kinds = np.array([i.pipelined is not None and (i.pipelined.hazard == "error") == error for i in program.machine.instructions])
        chosen = kinds[program.kind[self.instruction]]
        return Repeats(self.instruction[chosen], self.memory[chosen], self.first[chosen], self.second[chosen], self.granule[chosen])


def repeats(provenance: Provenance) -> Repeats:
    """Every instruction that breaks the rule of its pipeline, in the order of the program. Raises UserError E0611 for one that is too long."""
    program, controls = provenance.program, ControlContents(provenance)
    parts = [np.zeros((0, 5), np.int64)]
    for kind, instruction in enumerate(program.machine.instructions):
        for steps in pipelined_steps(program.machine).get(instruction.name, ()):
            assert instruction.pipelined
            parts += _Kind(provenance, controls, kind, steps, instruction.pipelined.apart).found()
    table = np.concatenate(parts)
    return Repeats(*table[np.lexsort((table[:, 1], table[:, 0]))].T)


def repeat_diagnostics(program: Program, found: Repeats) -> Iterator[Diagnostic]:
    """E0612 for the first of them, as severe as the instruction says."""
    for row in range(min(len(found), MOST + 1)):
        index, memory, first, second = (int(column[row]) for column in (found.instruction, found.memory, found.first, found.second))
        rule = program.machine.instructions[int(program.kind[index])].pipelined
        assert rule
        granule, alike = int(found.granule[row]), program.machine.memories[memory].name in memories_alike(program.machine)
        where = range_text(program.machine, memory, granule, granule + 1, alike)
        after = "the next step touches it" if second == first + 1 else f"step {second} touches it"
        text = f"{program.label(index)} writes {where} in step {first}, and {after}: its pipeline needs {rule.apart} or more between them"
        yield Diagnostic("E0612", text, hint="let the steps between go to other elements", severity=rule.hazard)


@dataclass(frozen=True)
class _Kind:
    """All instructions of a kind, and one memory of their pipelines."""

    provenance: Provenance
    controls: ControlContents
    kind: int
    steps: Steps
    apart: int

    def found(self) -> Iterator[Ints]:
        """int64 [n, 5]: rows of Repeats, some instructions at a time."""
        rows = self.provenance.rows(self.kind)
        count = rows.frame().evaluate(self.steps.count) if len(rows.instructions) else np.zeros(0, np.int64)
        if (count > LONGEST).any():
            which = int(np.argmax(count > LONGEST))
            label = self.provenance.program.label(int(rows.instructions[which]))
            raise fail("E0611", f"{label} has {int(count[which])} steps, more than the checks follow")
        ends, first = np.cumsum(count), 0
        while first < len(count):
            last = max(int(np.searchsorted(ends, (ends[first - 1] if first else 0) + LIMIT, "right")), first + 1)
            yield self._some(np.arange(first, last), count[first:last])
            first = last

    def _some(self, rows: Ints, count: Ints) -> Ints:
        """rows: of the instructions, whose steps are laid end to end. count: the steps of each."""
        machine = self.provenance.program.machine
        begin, owner = np.cumsum(count) - count, np.repeat(np.arange(len(rows)), count)
        places = [self._places(nest, rows, begin, len(owner)) for nest in self.steps.nests]
        best = np.full((len(rows), 3), NEVER)
        writing = [place for place, writes in zip(places, self.steps.writes, strict=True) if writes]
        for (low, high), (start, stop) in itertools.product(writing, places):
            for distance in range(1, min(self.apart, len(owner) - 1) + 1):
                meets = (low[:-distance] < stop[distance:]) & (start[distance:] < high[:-distance])
                at = np.flatnonzero(meets & (owner[:-distance] == owner[distance:]))[::-1]  # the first one of each is put in last
                here = np.full((len(rows), 3), NEVER)
                step = at - begin[owner[at]]
                here[owner[at]] = np.stack([step, step + distance, np.maximum(start[at + distance], low[at])], 1)
                best = np.where((here[:, 1] < best[:, 1])[:, None], here, best)
        hit = np.flatnonzero(best[:, 1] < NEVER)
        number = machine.memories.index(machine.memory[self.steps.memory])
        who = self.provenance.rows(self.kind).instructions[rows[hit]]
        return np.column_stack([who, np.full(len(hit), number), best[hit]])

    def _places(self, nest: Nest, rows: Ints, begin: Ints, total: int) -> tuple[Ints, Ints]:
        """int64 [total]: from which granule to which each step touches; -1 where it does not."""
        program, machine = self.provenance.program, self.provenance.program.machine
        plain = self.provenance.rows(self.kind)
        known = Rows(program, self.kind, plain.instructions, self.provenance.read, self.controls.read)
        start, stop = np.full(total, -1), np.full(total, -1)
        for frame in iterations(known.frame(rows), nest.path):
            index = [frame.evaluate(e) for e in nest.occurrence.index]
            one = np.ones_like(frame.rows)
            found = element_runs(machine, nest.access.view, np.arange(len(frame)), False, frame.evaluate(nest.instance), index, one, 0)[0]
            at = (begin[frame.rows - rows[0]] + frame.evaluate(self.steps.step))[found.instruction]
            start[at], stop[at] = found.start, found.stop
        return start, stop
