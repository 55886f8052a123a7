"""Footprints of a whole program with numpy: the nests of each kind of instruction, expanded for all of them at once."""

import numpy as np

from toolchain.isa.footprint.control import ControlContents
from toolchain.isa.footprint.footprints import INSTANCE, Faults, Footprints, Runs, join_faults, join_runs, merge_runs
from toolchain.isa.footprint.loop_nest import Nest, machine_nests, memories_alike
from toolchain.isa.footprint.provenance import Contents, Provenance
from toolchain.isa.footprint.rows import Frame, Rows, iteration_count, iterations, split_long
from toolchain.isa.footprint.runs import element_runs
from toolchain.isa.footprint.walk import Guard, Loop
from toolchain.isa.program import Ints, Program


def footprints(program: Program, contents: Contents, order: Ints, provenance: Provenance | None = None) -> Footprints:
    """The footprints of every instruction in `order` (int64 [n], all instructions, as they execute).

    Raises UserError E0608 for a control memory that cannot be followed, E0122 for an address that has no value.
    """
    return _Collector(program, provenance or Provenance(program, contents, order)).collect()


class _Collector:
    def __init__(self, program: Program, provenance: Provenance) -> None:
        self.program, self.provenance, self.machine = program, provenance, program.machine
        self.controls = ControlContents(provenance)
        shape = (len(program), len(program.machine.memories))
        self.read, self.written = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.runs: list[Runs] = []
        self.faults: list[Faults] = []

    def collect(self) -> Footprints:
        for kind, instruction in enumerate(self.machine.instructions):
            rows = Rows(self.program, kind, np.flatnonzero(self.program.kind == kind), self.provenance.read, self.controls.read)
            if len(rows.instructions):
                for nest in machine_nests(self.machine)[instruction.name]:
                    if nest.occurrence.kind in ("read", "write"):
                        self.nest(nest, rows)
        alike = memories_alike(self.machine)
        runs = merge_runs(join_runs(self.runs))
        feeds = self.controls.feeds()
        return Footprints(self.program, runs, feeds, join_faults([*self.faults, *self.controls.faults]), self.read, self.written, alike)

    def nest(self, nest: Nest, rows: Rows) -> None:
        path = nest.path
        leading = next((i for i, item in enumerate(path) if isinstance(item, Loop)), len(path))
        for frame in iterations(rows.frame(), path[:leading]):
            few = self.within_budget(nest, frame, path[leading:])
            last = path[-1] if leading < len(path) and isinstance(path[-1], Loop) and path[-1].step is not None else None
            for part in iterations(few, path[leading:-1] if last else path[leading:]):
                self.emit(nest, part, last)

    def within_budget(self, nest: Nest, frame: Frame, path: tuple[Loop | Guard, ...]) -> Frame:
        """The instructions whose loops have at most LONGEST iterations; the others are faults."""
        total = iteration_count(frame, path, lambda step: step * self.unit(nest) == nest.access.view.element.bytes)
        kept, faults = split_long(frame, total, nest.access.number)
        self.faults.append(faults)
        return kept

    def unit(self, nest: Nest) -> int:
        view = nest.access.view
        return view.unit or self.machine.memory[view.memory].element.bytes

    def fault(self, nest: Nest, frame: Frame, kind: int, value: Ints) -> None:
        count = len(frame)
        self.faults.append(Faults(frame.instructions, np.full(count, nest.access.number), np.full(count, kind), value, value))

    def emit(self, nest: Nest, frame: Frame, last: Loop | None) -> None:
        """Adds the elements of these iterations, the `last` loop taken as a run where it steps from neighbour to neighbour."""
        if last is None:
            self.add(nest, frame, np.ones(len(frame), np.int64), np.ones(len(frame), np.int64))
            return
        assert last.step is not None
        start, stop, step = frame.evaluate(last.start), frame.evaluate(last.stop), frame.evaluate(last.step)
        count = np.maximum(stop - start, 0)
        flat = np.abs(step) * self.unit(nest) == nest.access.view.element.bytes
        along = np.flatnonzero(flat & (count > 0))
        lowest = np.where(step < 0, stop - 1, start)[along]
        self.add(nest, frame.take(along).with_variable(last.var, lowest), count[along], np.abs(step[along]))
        for part in iterations(frame.take(np.flatnonzero(~flat)), (last,)):
            self.add(nest, part, np.ones(len(part), np.int64), np.ones(len(part), np.int64))

    def add(self, nest: Nest, frame: Frame, count: Ints, spacing: Ints) -> None:
        view, number = nest.access.view, nest.access.number
        for level, e in nest.occurrence.at:
            limit = next(x.count for x in self.machine.levels if x.name == level)
            value = frame.evaluate(e)
            wrong = (value < 0) | (value >= limit)
            if wrong.any():
                self.fault(nest, frame.take(np.flatnonzero(wrong)), INSTANCE, value[wrong])
                kept = np.flatnonzero(~wrong)
                frame, count, spacing = frame.take(kept), count[kept], spacing[kept]
        if not len(frame):
            return
        write = nest.occurrence.kind == "write"
        index = [frame.evaluate(e) for e in nest.occurrence.index]
        runs, faults = element_runs(self.machine, view, frame.instructions, write, frame.evaluate(nest.instance), index, count, number, spacing)
        self.runs.append(merge_runs(runs))
        self.faults.append(faults)
        moved = count * view.element.bytes * nest.replicas if frame.weight is None else count * frame.weight * view.element.bytes * nest.replicas
        memory = self.machine.memories.index(self.machine.memory[view.memory])
        np.add.at((self.written if write else self.read)[:, memory], frame.instructions, moved)
