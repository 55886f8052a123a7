"""Runs programs in compiled C: arrays of the program and the state handed over as pointers, faults as user errors."""

import ctypes
import functools
from collections.abc import Sequence

import numpy as np

from toolchain.analysis.state import State
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics.loops import TOO_MANY
from toolchain.spec.arrays import Array
from toolchain.spec.compile import compiler, load_known
from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import PACKAGE, package_hash
from toolchain.spec.fingerprint import MachineKey, notes_hash
from toolchain.spec.model import Machine

FAULTS = {
    1: ("E0701", "an access is outside its memory"),
    2: ("E0702", "a register is read before any instruction has set it"),
    3: ("E0703", "a shift by a negative or very large amount"),
    4: ("E0704", "division by zero"),
    6: ("E0706", TOO_MANY),
    10: ("E0709", "no memory left for the engine's working space"),
}
SCRATCH = 13


class _Scratch(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Context(ctypes.Structure):
    """Mirrors tw_context in runtime.h."""

    _fields_ = (
        ("memory", ctypes.c_void_p), ("host", ctypes.c_void_p), ("latched", ctypes.c_void_p), ("written", ctypes.c_void_p),
        ("field", ctypes.c_void_p), ("scratch", _Scratch * SCRATCH), ("zeros", ctypes.c_void_p), ("zeros_size", ctypes.c_size_t),
        ("iterations", ctypes.c_double),
    )  # fmt: skip


def available() -> bool:
    """Whether there is a C compiler ($TILEWRIGHT_CC, else cc, gcc or clang)."""
    return bool(compiler())


def prepare(machine: Machine, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The compiled engine of a machine, from the cache if it is there. Raises UserError E0710 when the compiler refuses."""
    library = load_known("engine", _digest(MachineKey(machine)), lambda: _source(machine), flags)
    if library is None:
        raise fail("E0711", "there is no C compiler", hint="install gcc or clang, or set TILEWRIGHT_CC")
    return library


@functools.lru_cache(maxsize=128)
def _digest(key: MachineKey) -> str:
    """Digest of the sources of the engine's text: the machine's description and the code that writes the text."""
    return " ".join([notes_hash(key.machine), *_writers()])


@functools.cache
def _writers() -> tuple[str, ...]:
    return tuple(package_hash(PACKAGE / name) for name in ("spec", "isa", "emulator", "templates/engine"))


def _source(machine: Machine) -> str:
    from toolchain.emulator.native.source import engine_source  # a tenth of what a short command takes, for a new engine alone

    return engine_source(machine)


def run(program: Program, state: State, order: Ints, flags: tuple[str, ...] = ()) -> None:
    """Executes the instructions in `order`, changing `state`. flags: more compiler flags.

    Raises UserError E0701 to E0711; an instruction at fault is named, and the state is then undefined.
    """
    library = prepare(program.machine, flags)
    context, kept = _context(program, state)
    columns = [np.ascontiguousarray(a, np.int64) for a in (order, program.kind, program.row, program.stream)]
    try:
        done, fault = _run_slices(library, context, columns)
    finally:
        library.tw_release(ctypes.byref(context))
    del kept
    if fault:
        raise _fault(program, int(order[done]), fault)


def _run_slices(library: ctypes.CDLL, context: _Context, columns: Sequence[Array]) -> tuple[int, int]:
    """(instructions run, fault). Comes back to Python after some millions of iterations: there Ctrl-C is heard."""
    library.tw_run.restype = ctypes.c_int64
    done, total, fault = 0, len(columns[0]), ctypes.c_int64(0)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in columns]
    while done < total and not fault.value:
        done = library.tw_run(ctypes.byref(context), ctypes.c_int64(done), ctypes.c_int64(total), *pointers, ctypes.byref(fault))
    return done, fault.value


def _fault(program: Program, index: int, number: int) -> UserError:
    code, message = FAULTS[number]
    return fail(code, message, place=program.label(index))


def _context(program: Program, state: State) -> tuple[_Context, list[Array]]:
    """The pointers, and the arrays that must live as long as they do."""
    machine, kept = program.machine, list[Array]()
    plain = [state.memories[m.name] for m in machine.memories if m.kind != "register"]
    host = [state.host[m.name] for m in machine.memories if m.host]
    latched = [state.latched[m.name] for m in machine.memories if m.latches]
    written = [state.written[m.name] for m in machine.memories if m.latches]
    fields: list[int] = []
    for instruction, columns in zip(machine.instructions, program.columns, strict=True):
        rows = [np.ascontiguousarray(columns[f.name], np.int64) for f in instruction.fields]
        kept.extend(rows)
        fields.append(_pointers(rows, kept))
    by_kind = np.array(fields, np.uintp)
    tables = [_pointers(arrays, kept) for arrays in (plain, host, latched, written)]
    context = _Context(*(ctypes.c_void_p(t) for t in (*tables, by_kind.ctypes.data)))
    return context, [*kept, by_kind]


def _pointers(arrays: Sequence[Array], kept: list[Array]) -> int:
    """The address of a table of addresses."""
    for array in arrays:
        assert array.flags.c_contiguous
    table = np.array([a.ctypes.data for a in arrays] or [0], np.uintp)
    kept.append(table)
    return int(table.ctypes.data)
