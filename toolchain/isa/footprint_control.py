"""What a control memory holds at each place in the order: the program's own loads of it, looked up by time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toolchain.isa import ir
from toolchain.isa.footprint import Runs, join_runs, merge_runs
from toolchain.isa.footprint_nest import Nest, instance_of, machine_nests
from toolchain.isa.footprint_rows import Frame, Rows, iterations
from toolchain.isa.footprint_runs import element_runs
from toolchain.isa.program import Ints, Program
from toolchain.isa.provenance import Latches, Provenance, sorted_latches
from toolchain.spec.errors import fail
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
        self._fills: dict[str, _Fills] = {}

    def read(self, e: ir.ControlRead, frame: Frame) -> Ints:
        """int64: the member that each iteration reads; an address outside the memory is taken to its nearest end."""
        machine, memory = self.program.machine, self.program.machine.memory[e.access.view.memory]
        elements = sum(memory.depths)
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
            nests = [(nest, kind) for nest, kind in fill_nests(self.program) if nest.access.view.memory == memory.name]
            parts = [part for nest, kind in nests for part in self._filled(nest, kind, memory)]
            slot, instruction, value = (np.concatenate([p[i] for p in parts]) if parts else np.zeros(0, np.int64) for i in range(3))
            when = sorted_latches(slot, self.provenance.position[instruction], np.arange(len(slot)))
            self._fills[memory.name] = _Fills(when, value)
        return self._fills[memory.name]

    def _filled(self, nest: Nest, kind: int, memory: Memory) -> Iterator[tuple[Ints, Ints, Ints]]:
        elements = sum(memory.depths)
        for frame in iterations(self.provenance.rows(kind).frame(), nest.path):
            unit = nest.access.view.unit
            index = frame.evaluate(nest.occurrence.index[-1]) * unit // memory.element.bytes
            index = index % elements if memory.kind == "ring" else index
            value = self._value(nest, frame, memory)
            inside = (index >= 0) & (index < elements)
            slot = frame.evaluate(nest.instance) * elements + index
            yield slot[inside], frame.instructions[inside], value[inside]

    def _value(self, nest: Nest, frame: Frame, memory: Memory) -> Ints:
        value = nest.occurrence.value
        assert value is not None
        if not isinstance(value, ir.Load):
            bits = memory.element.bytes * 8
            number = frame.evaluate(value)
            return number & ((1 << bits) - 1) if bits < 64 else number
        source, view = self.program.machine.memory[value.access.view.memory], value.access.view
        if view.element.bytes != memory.element.bytes or len(value.access.index) != 1:
            raise fail("E0608", f"'{memory.name}' must be loaded by copies of whole elements", value.access.span)
        instance = frame.evaluate(instance_of(self.program.machine, source.scope, dict(value.access.at), True))
        byte = np.clip(frame.evaluate(value.access.index[0]) * view.unit, 0, source.bytes - view.element.bytes)
        data = self.provenance.contents.memories[source.name]
        return little_endian(data[instance[:, None], byte[:, None] + np.arange(view.element.bytes)])

    def feeds(self) -> Runs:
        """What control memories are loaded from, as runs of the source memories."""
        parts: list[Runs] = []
        for nest, kind in fill_nests(self.program):
            if isinstance(nest.occurrence.value, ir.Load):
                source, rows = nest.occurrence.value.access, self.provenance.rows(kind)
                parts += [self._feed(source, frame) for frame in iterations(rows.frame(), nest.path)]
        return merge_runs(join_runs(parts))

    def _feed(self, source: ir.Access, frame: Frame) -> Runs:
        machine = self.program.machine
        instance = frame.evaluate(instance_of(machine, machine.memory[source.view.memory].scope, dict(source.at), True))
        index = [frame.evaluate(i) for i in source.index]
        return element_runs(machine, source.view, frame.instructions, False, instance, index, np.ones(len(frame), np.int64), 0)[0]


def fill_nests(program: Program) -> Iterator[tuple[Nest, int]]:
    """Every nest that writes a control memory, with the kind of its instruction."""
    for kind, instruction in enumerate(program.machine.instructions):
        for nest in machine_nests(program.machine)[instruction.name]:
            if nest.occurrence.kind == "fill":
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


__all__ = ["ControlContents", "Rows", "fill_nests"]
