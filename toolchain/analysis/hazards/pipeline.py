"""Elements that an instruction's pipeline meets again before it is done with them: a later step reads what an earlier one has yet to write."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toolchain.isa.checks import MOST
from toolchain.isa.footprint.control import ControlContents
from toolchain.isa.footprint.loop_nest import Nest, memories_alike
from toolchain.isa.footprint.pipeline import Steps, pipelined_steps
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.footprint.rows import LIMIT, Rows, iterations
from toolchain.isa.footprint.runs import element_runs
from toolchain.isa.footprint.text import range_text
from toolchain.isa.program import Ints, Program
from toolchain.spec.errors import Diagnostic, fail

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
