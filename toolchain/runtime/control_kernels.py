"""Kernels of control-memory records (micro-ops): made once, one copy of each content in DRAM, and on chip while they are in use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.isa.assembly.disassembler import write_line
from toolchain.isa.assembly.form import forms
from toolchain.runtime.device_memory import Buffer
from toolchain.schedule.kernels.constants import ControlBuffer, pack_records
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.instructions import InstructionWriter
from toolchain.schedule.kernels.kernel import Kernel, Loading
from toolchain.schedule.kernels.render import render
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine, Memory


@dataclass(frozen=True)
class Records:
    """A kernel: the bytes of `count` records. In an instruction's fields, `first` and `stop` stand for where it is on chip."""

    content: bytes
    count: int

    @property
    def first(self) -> "RecordAddress":
        return RecordAddress(self, 0)

    @property
    def stop(self) -> "RecordAddress":
        return RecordAddress(self, self.count)


@dataclass(frozen=True)
class RecordAddress:
    """An address in the control memory, `offset` records after a kernel's first."""

    records: Records
    offset: int

    def __add__(self, more: int) -> "RecordAddress":
        return RecordAddress(self.records, self.offset + more)


@dataclass(frozen=True)
class Residency:
    """How kernels get on chip, by the machine's own kernel file: a control memory, and a template that fetches into it."""

    machine: Machine
    memory: Memory
    loading: Loading
    kernel: Kernel

    def fetch(self, slot: int, base: int, count: int) -> str:
        """Assembly that brings `count` records from element `base` of the view in DRAM to `slot`."""
        scope = {"slot": slot, "base": base, "count": count}
        if isinstance(self.loading.code, str):
            return render(self.kernel.folder, self.loading.code, scope)
        batch = InstructionWriter(self.machine).write(self.loading.code, Frame(1, scope.__getitem__), lambda _: "a fetch")
        kinds, ways = [*map(int, batch.kind)], list(forms(self.machine).values())
        return "\n".join(write_line(ways[kind], batch.values(index)) for index, kind in enumerate(kinds))


def residency_of(machine: Machine, kernels: Mapping[str, Kernel]) -> Residency | None:
    """None for a machine whose kernels name no records."""
    for kernel in kernels.values():
        if kernel.loading is not None and kernel.constants:
            return Residency(machine, machine.memory[kernel.constants[0].memory], kernel.loading, kernel)
    return None


@dataclass
class RecordCache:
    """place: allocates DRAM for bytes and copies them there. Where each content is in DRAM for good, and which are on chip now."""

    residency: Residency
    place: Callable[[bytes], Buffer]
    made: dict[bytes, Records] = field(default_factory=dict[bytes, Records])
    stored: dict[bytes, Buffer] = field(default_factory=dict[bytes, Buffer])
    fetches: int = 0

    def __post_init__(self) -> None:
        self.buffer = ControlBuffer(sum(self.residency.memory.depths))

    def make(self, records: Sequence[Mapping[str, int]]) -> Records:
        """The kernel of these records, fields by name, 0 where left out; the same one for the same content.

        Raises UserError E1123 for an unknown field or no record, E1006 for a value that a field does not hold.
        """
        element = self.residency.memory.element
        known = {part.name for part in element.record}
        strange = sorted({name for record in records for name in record} - known)
        if strange or not records:
            what = f"a field '{strange[0]}'" if strange else "no records"
            raise fail("E1123", f"a kernel of '{self.residency.memory.name}' has {what}", hint=f"fields: {', '.join(sorted(known))}")
        columns = {name: np.array([record.get(name, 0) for record in records], np.int64) for name in sorted(known)}
        content = pack_records(element, columns, len(records), f"a kernel of '{self.residency.memory.name}'")
        return self.made.setdefault(content, Records(content, len(records)))

    def need(self, kernels: Sequence[Records]) -> str:
        """Assembly that fetches those of them that are not on chip. Raises UserError E1004 where they do not fit at once."""
        size = self.residency.memory.element.bytes
        lines: list[str] = []
        for content, slot in self.buffer.need(list(dict.fromkeys(k.content for k in kernels)), size):
            if content not in self.stored:
                self.stored[content] = self.place(content)
            lines.append(self.residency.fetch(slot, self.stored[content].at(self.residency.loading.view), len(content) // size))
            self.fetches += 1
        return "\n".join(lines)

    def address(self, where: RecordAddress) -> int:
        """The record on chip now. Raises KeyError for a kernel that is not."""
        return self.buffer.place(where.records.content) + where.offset
