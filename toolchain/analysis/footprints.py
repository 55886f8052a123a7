"""Footprints by the quickest way: C generated from the machine, else toolchain/isa/footprint/vector.py, which is twenty times as slow."""

import ctypes
import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.footprint_source import FootprintSource, Table, footprint_source, large_kinds
from toolchain.analysis.state import State
from toolchain.isa.footprint import vector as footprint_vector
from toolchain.isa.footprint.footprints import Faults, Footprints, Runs, join_faults, merge_runs
from toolchain.isa.footprint.loop_nest import memories_alike
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.arrays import Array
from toolchain.spec.compile import load_library
from toolchain.spec.expr import Expr
from toolchain.spec.fingerprint import MachineKey

QUICK = ("-O1",)
"""The compiler needs seconds for a machine's text, and half as many so; a program's footprints then take hundredths of a second longer."""
Release = Callable[[ctypes.c_void_p], object]


class _Runs(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int64),
        ("room", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("instruction", "memory", "start", "stop", "write")),
    )


class _Faults(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("count", ctypes.c_int64), ("room", ctypes.c_int64))


class _Task(ctypes.Structure):
    _fields_ = (
        ("n", ctypes.c_int64),
        ("memories", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("order", "kind", "row", "columns", "control", "source", "traffic_read", "traffic_written")),
        ("runs", _Runs),
        ("feeds", _Runs),
        ("faults", _Faults),
        ("failed", ctypes.c_int64),
    )


def native_footprints(program: Program, order: Ints, provenance: Provenance) -> Footprints | None:
    """None where there is no compiler, or where an address has no value: numpy then says which.

    Raises MemoryError, and UserError E0608 for a control memory that cannot be followed.
    """
    code = program_source(program)
    library = load_library("footprints", code.source, QUICK)
    return None if library is None else _Call(program, order, provenance, code).run(library)


@functools.lru_cache(maxsize=128)
def _source(key: MachineKey, without: frozenset[int]) -> FootprintSource:
    return footprint_source(key.machine, without)


def program_source(program: Program) -> FootprintSource:
    """The generated C of a program's machine, written once for each Machine object; large kinds are left out where the program has none."""
    large = large_kinds(program.machine)
    used = large and not large.isdisjoint(np.unique(program.kind).tolist())
    return _source(MachineKey(program.machine), frozenset[int]() if used else large)


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
        status = int(library.footprints(ctypes.byref(task)))
        release = library.footprints_free
        runs, feeds, faults = _runs(task.runs, release), _runs(task.feeds, release), _faults(task.faults, release)
        if status == 1:
            raise MemoryError("the address phase needs more memory than there is")
        if status:
            return None
        if np.any(np.diff(self.order) < 0):
            runs = runs.take(np.argsort(runs.instruction, kind="stable"))
        return Footprints(self.program, runs, merge_runs(feeds), join_faults([faults]), traffic[0], traffic[1], memories_alike(machine))

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


def _owned(address: int | None, kind: type[ctypes.c_int64 | ctypes.c_uint8], count: int, release: Release) -> Array:
    """C's own array of `count` numbers, given back when nothing uses it any more."""
    if not address:
        return np.zeros(0, kind)
    held = (kind * count).from_address(address)
    weakref.finalize(held, release, ctypes.c_void_p(address))
    return np.ctypeslib.as_array(held)


def _runs(runs: _Runs, release: Release) -> Runs:
    columns = [_owned(getattr(runs, name), ctypes.c_int64, runs.count, release) for name in ("instruction", "memory", "start", "stop")]
    write = _owned(runs.write, ctypes.c_uint8, runs.count, release)
    return Runs(columns[0], columns[1], write.view(np.bool_), columns[2], columns[3])


def _faults(faults: _Faults, release: Release) -> Faults:
    table = _owned(faults.at, ctypes.c_int64, 5 * faults.count, release).reshape(-1, 5)
    return Faults(*(np.ascontiguousarray(table[:, i]) for i in range(5)))


def footprints(program: Program, state: State, order: Ints, provenance: Provenance | None = None) -> Footprints:
    """The reads and writes of every instruction, in C where there is a compiler, else with numpy; the same result.

    Raises UserError E0608 for a control memory that cannot be followed, E0122 for an address that has no value.
    """
    provenance = provenance or Provenance(program, state, order)
    found = native_footprints(program, order, provenance)
    return footprint_vector.footprints(program, state, order, provenance) if found is None else found
