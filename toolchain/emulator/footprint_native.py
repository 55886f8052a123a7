"""Footprints in C generated from the machine: the same result as toolchain/isa/footprint_vector.py, twenty times as fast."""

import ctypes
import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.emulator.compile import load_library
from toolchain.emulator.footprint_c import FootprintSource, Table, footprint_source
from toolchain.isa import ir
from toolchain.isa.footprint import Faults, Footprints, Runs, join_faults, join_runs, merge_runs
from toolchain.isa.footprint_nest import memories_alike
from toolchain.isa.program import Ints, Program
from toolchain.isa.provenance import Provenance
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine

Pointer = ctypes.POINTER(ctypes.c_int64)


class _Buffer(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("count", ctypes.c_int64), ("room", ctypes.c_int64))


class _Task(ctypes.Structure):
    _fields_ = (
        ("n", ctypes.c_int64),
        ("memories", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("order", "kind", "row", "columns", "control", "source", "traffic_read", "traffic_written")),
        ("runs", _Buffer),
        ("feeds", _Buffer),
        ("faults", _Buffer),
        ("failed", ctypes.c_int64),
    )


def native_footprints(program: Program, order: Ints, provenance: Provenance) -> Footprints | None:
    """None where there is no compiler, or where an address has no value: numpy then says which.

    Raises MemoryError, and UserError E0608 for a control memory that cannot be followed.
    """
    code = machine_source(program.machine)
    library = load_library(f"footprint-{program.machine.name}", code.source)
    return None if library is None else _Call(program, order, provenance, code).run(library)


@dataclass(frozen=True)
class _Key:
    """A machine compared by identity."""

    machine: Machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.machine is other.machine

    def __hash__(self) -> int:
        return id(self.machine)


@functools.lru_cache(maxsize=32)
def _source(key: _Key) -> FootprintSource:
    return footprint_source(key.machine)


def machine_source(machine: Machine) -> FootprintSource:
    """The generated C of a machine, written once for each Machine object."""
    return _source(_Key(machine))


@dataclass(frozen=True)
class _Call:
    program: Program
    order: Ints
    provenance: Provenance
    code: FootprintSource

    def run(self, library: ctypes.CDLL) -> Footprints | None:
        machine, n = self.program.machine, len(self.program)
        columns = [[self.column(kind, e) for e in wanted] for kind, wanted in enumerate(self.code.columns)]
        rows = [_pointers(each) for each in columns]
        contents = self.provenance.contents.memories
        control = [contents[m.name].copy() if m.control else None for m in machine.memories]
        source = [contents.get(m.name) for m in machine.memories]
        traffic = np.zeros((2, n, len(machine.memories)), np.int64)
        held = [np.ascontiguousarray(a, np.int64) for a in (self.order, self.program.kind, self.program.row)]
        tables = [_addresses([ctypes.addressof(r) for r in rows]), _pointers(control), _pointers(source)]
        task = _Task(
            len(self.order), len(machine.memories), *(a.ctypes.data for a in held), *(ctypes.addressof(t) for t in tables),
            traffic[0].ctypes.data, traffic[1].ctypes.data,
        )  # fmt: skip
        try:
            status = int(library.footprints(ctypes.byref(task)))
            if status == 1:
                raise MemoryError("the address phase needs more memory than there is")
            return None if status else self.result(task, traffic)
        finally:
            library.footprints_free(ctypes.byref(task))

    def result(self, task: _Task, traffic: Ints) -> Footprints:
        runs, feeds = _runs(task.runs), merge_runs(_runs(task.feeds))
        if np.any(np.diff(runs.instruction) < 0):
            runs = runs.take(np.argsort(runs.instruction, kind="stable"))
        faults = join_faults([Faults(*_table(task.faults))])
        return Footprints(self.program, runs, feeds, faults, traffic[0], traffic[1], memories_alike(self.program.machine))

    def column(self, kind: int, e: Expr) -> Ints:
        rows = self.provenance.rows(kind)
        if not len(rows.instructions):
            return np.zeros(0, np.int64)
        if isinstance(e, ir.FieldRef):
            return np.ascontiguousarray(self.program.columns[kind][e.name], np.int64)
        if not isinstance(e, Table):
            return np.ascontiguousarray(rows.column(e))
        memory = self.program.machine.memory[e.register]
        read, count = ir.RegisterRead(e.register, ex.Const(0), e.field_name), len(rows.instructions)
        indices = range(memory.depths[0])
        return np.stack([self.provenance.read(read, rows.instructions, np.full(count, i)) for i in indices], 1)


def _pointers(arrays: list[Ints] | list[NDArray[np.uint8] | None]) -> ctypes.Array[ctypes.c_void_p]:
    return _addresses([0 if a is None else a.ctypes.data for a in arrays])


def _addresses(numbers: list[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(numbers), 1))(*numbers)


def _table(buffer: _Buffer) -> list[Ints]:
    """The columns of a C table of five."""
    count = int(buffer.count)
    if not count:
        return [np.zeros(0, np.int64) for _ in range(5)]
    table = np.ctypeslib.as_array(ctypes.cast(buffer.at, Pointer), (count, 5))
    return [np.ascontiguousarray(table[:, i]) for i in range(5)]


def _runs(buffer: _Buffer) -> Runs:
    instruction, memory, write, start, stop = _table(buffer)
    return join_runs([Runs(instruction, memory, write != 0, start, stop)])
