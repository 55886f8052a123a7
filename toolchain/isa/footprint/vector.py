"""Footprints of a whole program with numpy: the nests of each kind of instruction, expanded for all of them at once.

The contents of a control memory at each place in the order come from the program's own loads of it, looked up by time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toolchain.isa.footprint.footprints import INSTANCE, Faults, Footprints, Runs, element_runs, join_faults, join_runs, merge_runs
from toolchain.isa.footprint.loop_nest import Nest, instance_of, machine_nests, memories_alike
from toolchain.isa.footprint.provenance import MOST_SLOTS, Contents, Latches, Provenance, sorted_latches
from toolchain.isa.footprint.rows import Iterations, Rows, iteration_count, iterations, split_long
from toolchain.isa.footprint.walk import Guard, Loop
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics import ir
from toolchain.spec.errors import fail
from toolchain.spec.expr import Choose, Expr
from toolchain.spec.model import Memory, ScalarType


@dataclass(frozen=True)
class _Fills:
    """when: slot = instance * elements + element; instruction is the row of `value`. value: uint64, the element's bytes."""

    when: Latches
    value: Ints


class ControlContents:
    """Control memories as the instructions of a program find them. Elements are at most 64 bits."""

    def __init__(self, provenance: Provenance) -> None:
        self.provenance, self.program = provenance, provenance.program
        self.faults: list[Faults] = []
        self._fills: dict[str, _Fills] = {}

    def read(self, e: ir.ControlRead, frame: Iterations) -> Ints:
        """int64: the member that each iteration reads; an address outside the memory is taken to its nearest end."""
        machine, memory = self.program.machine, self.program.machine.memory[e.access.view.memory]
        elements = memory.elements
        index = frame.evaluate(e.access.index[-1]) * (e.access.view.unit or memory.element.bytes) // memory.element.bytes
        index = index % elements if memory.kind == "ring" else np.clip(index, 0, elements - 1)
        instance = frame.evaluate(instance_of(machine, memory.scope, dict(e.access.at), True))
        slot = instance * elements + index
        fills = self.fills(memory)
        found = fills.when.before(slot, self.provenance.position[frame.instructions])
        raw = self._before(memory)[slot]
        if len(fills.value):
            raw = np.where(found >= 0, fills.value[found], raw)
        return member_value(e, raw)

    def _before(self, memory: Memory) -> Ints:
        data = self.provenance.contents.memories[memory.name]
        return little_endian(data.reshape(-1, memory.element.bytes))

    def fills(self, memory: Memory) -> _Fills:
        """Every element written into a control memory, with its value."""
        if memory.name not in self._fills:
            if memory.element.bytes > 8 or memory.banks > 1:
                raise fail("E0608", f"the control memory '{memory.name}' has several banks or elements wider than 64 bits", memory.span)
            if memory.elements * self.program.machine.instances(memory.scope) > MOST_SLOTS:
                raise fail("E0608", f"the control memory '{memory.name}' has more than {MOST_SLOTS} elements", memory.span)
            nests = [(nest, kind) for nest, kind in nests_of(self.program, "fill") if nest.access.view.memory == memory.name]
            parts = [part for nest, kind in nests for part in self._filled(nest, kind, memory)]
            slot, instruction, value = (np.concatenate([p[i] for p in parts]) if parts else np.zeros(0, np.int64) for i in range(3))
            when = sorted_latches(slot, self.provenance.position[instruction], np.arange(len(slot)))
            self._fills[memory.name] = _Fills(when, value)
        return self._fills[memory.name]

    def _filled(self, nest: Nest, kind: int, memory: Memory) -> Iterator[tuple[Ints, Ints, Ints]]:
        elements = memory.elements
        for frame in self._iterations(nest, kind):
            unit = nest.access.view.unit
            index = frame.evaluate(nest.occurrence.index[-1]) * unit // memory.element.bytes
            index = index % elements if memory.kind == "ring" else index
            assert nest.occurrence.value is not None
            value = self._value(nest.occurrence.value, frame, memory)
            inside = (index >= 0) & (index < elements)
            slot = frame.evaluate(nest.instance) * elements + index
            yield slot[inside], frame.instructions[inside], value[inside]

    def _value(self, value: Expr, frame: Iterations, memory: Memory) -> Ints:
        """int64 [len(frame)]: the bits that each iteration writes."""
        match value:
            case Choose(condition=condition, then=then, other=other):
                taken = frame.evaluate(condition) != 0
                found = np.zeros(len(frame), np.int64)
                for side, rows in ((then, np.flatnonzero(taken)), (other, np.flatnonzero(~taken))):
                    found[rows] = self._value(side, frame.take(rows), memory)
                return found
            case ir.Load(access=access):
                return self._loaded(access, frame, memory)
            case _:
                bits = memory.element.bytes * 8
                number = frame.evaluate(value)
                return number & ((1 << bits) - 1) if bits < 64 else number

    def _loaded(self, access: ir.Access, frame: Iterations, memory: Memory) -> Ints:
        source, view = self.program.machine.memory[access.view.memory], access.view
        if view.element.bytes != memory.element.bytes or len(access.index) != 1:
            raise fail("E0608", f"'{memory.name}' must be loaded by copies of whole elements", access.span)
        instance = frame.evaluate(instance_of(self.program.machine, source.scope, dict(access.at), True))
        byte = np.clip(frame.evaluate(access.index[0]) * view.unit, 0, source.bytes - view.element.bytes)
        data = self.provenance.contents.memories[source.name]
        return little_endian(data[instance[:, np.newaxis], byte[:, np.newaxis] + np.arange(view.element.bytes)])

    def feeds(self) -> Runs:
        """The sources of control memories, as runs of the source memories."""
        parts: list[Runs] = []
        for nest, kind in nests_of(self.program, "feed"):
            parts += [self._feed(nest, frame) for frame in self._iterations(nest, kind)]
        return merge_runs(join_runs(parts))

    def _iterations(self, nest: Nest, kind: int) -> Iterator[Iterations]:
        """All iterations of instructions with fewer than LONGEST; the others are faults."""
        leading = next((i for i, item in enumerate(nest.path) if isinstance(item, Loop)), len(nest.path))
        for frame in iterations(self.provenance.rows(kind).frame(), nest.path[:leading]):
            total = iteration_count(frame, nest.path[leading:], lambda step: step < 0)
            kept, faults = split_long(frame, total, nest.access.number)
            self.faults.append(faults)
            yield from iterations(kept, nest.path[leading:])

    def _feed(self, nest: Nest, frame: Iterations) -> Runs:
        index, ones = [frame.evaluate(i) for i in nest.occurrence.index], np.ones(len(frame), np.int64)
        instance = frame.evaluate(nest.instance)
        return element_runs(self.program.machine, nest.access.view, frame.instructions, False, instance, index, ones, 0)[0]


def nests_of(program: Program, what: str) -> Iterator[tuple[Nest, int]]:
    """Every nest that is a `fill` of a control memory or a `feed` of one, with the kind of its instruction."""
    for kind, instruction in enumerate(program.machine.instructions):
        for nest in machine_nests(program.machine)[instruction.name]:
            if nest.occurrence.kind == what:
                yield nest, kind


def little_endian(data: np.typing.NDArray[np.uint8]) -> Ints:
    """int64 [n] of uint8 [n, bytes], bytes at most 8; the bits of an unsigned number."""
    wide = np.zeros((len(data), 8), np.uint8)
    wide[:, : data.shape[1]] = data
    return wide.reshape(-1).view("<i8").astype(np.int64)


def member_value(e: ir.ControlRead, raw: Ints) -> Ints:
    """The record's member, or the scalar, in the element's bits."""
    field = next((f for f in e.access.view.element.record if f.name == e.member), None)
    lsb, kind = (field.lsb, field.type) if field else (0, e.access.view.element.scalar)
    return sign_extended(raw >> lsb, kind)


def sign_extended(raw: Ints, kind: ScalarType) -> Ints:
    """The low bits of a number, as the type reads them."""
    if kind.bits == 64:
        return raw
    low = raw & ((1 << kind.bits) - 1)
    return low - ((low >> (kind.bits - 1)) << kind.bits) if kind.signed else low


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

    def within_budget(self, nest: Nest, frame: Iterations, path: tuple[Loop | Guard, ...]) -> Iterations:
        """The instructions whose loops have at most LONGEST iterations; the others are faults."""
        total = iteration_count(frame, path, lambda step: step * self.unit(nest) == nest.access.view.element.bytes)
        kept, faults = split_long(frame, total, nest.access.number)
        self.faults.append(faults)
        return kept

    def unit(self, nest: Nest) -> int:
        view = nest.access.view
        return view.unit or self.machine.memory[view.memory].element.bytes

    def fault(self, nest: Nest, frame: Iterations, kind: int, value: Ints) -> None:
        count = len(frame)
        self.faults.append(Faults(frame.instructions, np.full(count, nest.access.number), np.full(count, kind), value, value))

    def emit(self, nest: Nest, frame: Iterations, last: Loop | None) -> None:
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

    def add(self, nest: Nest, frame: Iterations, count: Ints, spacing: Ints) -> None:
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
