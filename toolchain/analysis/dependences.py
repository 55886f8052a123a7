"""Dependences between instructions: read after write, write after read, write after write, of memories and latched registers.

The program's order says which of two accesses comes first. Nothing here knows of counters or interlocks.
"""

import ctypes
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Runs, join_runs
from toolchain.isa.footprint.provenance import Provenance, register_runs
from toolchain.isa.program import Ints, Program
from toolchain.spec.arrays import ranked
from toolchain.spec.compile import load_checker

Needs = NDArray[np.int32]
Flags = NDArray[np.bool_]
Accesses = tuple[int, Runs]
"""A memory, and accesses to it."""
FEW = 8
"""Runs of an instruction that are looked at one by one."""


@dataclass(frozen=True)
class Dependences:
    """needs: int32 [n, units], the latest instruction of each unit of the same stream that must be done first; -1: none. Across streams, of each
    queue that has instructions.

    A need of several instructions of a unit is a need of the latest: a unit finishes in order.
    stores: bool [n], whether an instruction writes a memory that outlives the program, one of kind dram.
    """

    needs: Needs
    stores: Flags


def find_dependences(program: Program, accesses: Iterable[Accesses]) -> Dependences:
    """accesses: of the program executed in its own order (`accesses_by_memory`)."""
    needs, stores = no_needs(program), np.zeros(len(program), np.bool_)
    for memory, own in accesses:
        sweep(own, program.unit, needs)
        if program.machine.memories[memory].kind == "dram":
            stores[own.instruction[own.write]] = True
    return Dependences(needs, stores)


def find_dependences_across(program: Program, order: Ints, runs: Runs, provenance: Provenance) -> Dependences:
    """Dependences of streams that share memories. order: int64 [n], one in which the instructions of all streams could run one by one; each stream's
    own are in the program's order. runs: the footprints of the program executed so."""
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    used, column = np.unique(program.queue, return_inverse=True)
    needs = np.full((len(program), len(used)), -1, np.int32)
    accesses = join_runs([runs, register_runs(provenance)])
    for memory in np.unique(accesses.memory[accesses.write]).tolist():
        here = accesses.take(accesses.memory == memory)
        sweep(here.take(np.argsort(position[here.instruction], kind="stable")), column, needs)
    return Dependences(needs, _stores(program, runs))


def _stores(program: Program, runs: Runs) -> Flags:
    """bool [n]: instructions that write a memory that outlives the program."""
    stores = np.zeros(len(program), np.bool_)
    outlives = np.array([m.kind == "dram" for m in program.machine.memories])
    stores[runs.instruction[runs.write & outlives[runs.memory]]] = True
    return stores


def no_needs(program: Program) -> Needs:
    """int32 [n, units] of -1: no instruction needs another."""
    return np.full((len(program), len(program.machine.units)), -1, np.int32)


def accesses_by_memory(program: Program, runs: Runs, provenance: Provenance) -> Iterator[Accesses]:
    """For each memory and latched register that a stream writes, the stream's accesses to it in the program's order. runs: the footprints of the
    program executed in its own order, sorted by instruction."""
    accesses = join_runs([runs, register_runs(provenance)])
    stream = program.stream[accesses.instruction]
    for memory in np.flatnonzero(np.bincount(accesses.memory)).tolist():
        here = np.flatnonzero(accesses.memory == memory)
        streams = stream[here]
        for number in np.flatnonzero(np.bincount(streams)).tolist():
            chosen = here[streams == number]
            if accesses.write[chosen].any():
                yield memory, accesses.take(chosen[np.argsort(accesses.instruction[chosen], kind="stable")])


def find_conflicts(accesses: Iterable[Runs], unit: Ints, units: Collection[int]) -> tuple[Ints, Ints]:
    """Pairs of instructions that must keep their order, of which the first belongs to one of these units: int64 [pairs] each. accesses: those to one
    memory each, in the program's order. Unlike `sweep`, this names every instruction that is met, not the latest of each unit alone."""
    own, count, found = np.isin(unit, list(units)), len(unit), [np.empty(0, np.int64)]
    for runs in accesses:
        if own[runs.instruction].any():
            first, second = _conflicts(runs, own)
            found.append(first * count + second)
    first, second = np.divmod(np.unique(np.concatenate(found)), max(count, 1))
    return first, second


def _cut(runs: Runs) -> tuple[Ints, Ints, int]:
    """Runs of one memory as pieces low..high - 1, which no run cuts, and how many pieces there are."""
    places, pieces = ranked(np.concatenate([runs.start, runs.stop]))
    return places[: len(runs)], places[len(runs) :], pieces


def _conflicts(runs: Runs, own: Flags) -> tuple[Ints, Ints]:
    """Pairs of one memory. own: bool [n], who may come first."""
    low, high, pieces = _cut(runs)
    library = load_checker("dependences")
    if library is not None:
        return _conflicts_native(library, runs, (low, high), pieces, own)
    first, second = _met(runs, low, high - low)
    chosen = own[first] & (first != second)
    return first[chosen], second[chosen]


class _Conflicts(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("runs", "most")),
        *(
            (name, ctypes.c_void_p)
            for name in ("who", "low", "high", "write", "own", "writer", "readers", "stamp", "reader", "next", "first", "second")
        ),
        *((name, ctypes.c_int64) for name in ("found", "links")),
    )


def _conflicts_native(library: ctypes.CDLL, runs: Runs, bounds: tuple[Ints, Ints], pieces: int, own: Flags) -> tuple[Ints, Ints]:
    given = [np.ascontiguousarray(part, np.int64) for part in (runs.instruction, *bounds)]
    given += [np.ascontiguousarray(part, np.uint8) for part in (runs.write, own)]
    links, most = int((bounds[1] - bounds[0])[~runs.write & own[runs.instruction]].sum()), 8 * len(runs)
    while True:
        marks = [np.full(size, -1, np.int32) for size in (pieces, pieces, len(own))]
        pairs = [np.empty(most, np.int64) for _ in range(2)]
        held = [*given, *marks, *(np.empty(links, np.int32) for _ in range(2)), *pairs]
        task = _Conflicts(len(runs), most, *(part.ctypes.data for part in held))
        library.conflicts(ctypes.byref(task))
        if task.found <= most:
            return pairs[0][: task.found], pairs[1][: task.found]
        most = task.found


def _met(accesses: Runs, low: Ints, size: Ints) -> tuple[Ints, Ints]:
    """By piece, each access after the last write before it, and the next write after each read; an instruction reads before it writes."""
    run = np.repeat(np.arange(len(accesses)), size)
    piece = np.arange(len(run)) - np.repeat(np.cumsum(size) - size - low, size)
    order = np.lexsort((accesses.write[run], accesses.instruction[run], piece))
    run, piece, at = run[order], piece[order], np.arange(len(order))
    who, write = accesses.instruction[run], accesses.write[run]
    before = np.maximum.accumulate(np.where(write, at, -1))
    before = np.concatenate([np.full(1, -1), before[:-1]])
    after = np.minimum.accumulate(np.where(write, at, len(at))[::-1])[::-1]
    written = (before >= 0) & (piece[before] == piece)
    replaced = ~write & (after < len(at)) & (piece[np.minimum(after, len(at) - 1)] == piece)
    return np.concatenate([who[before[written]], who[replaced]]), np.concatenate([who[written], who[after[replaced]]])


def sweep(runs: Runs, unit: Ints, needs: Needs) -> None:
    """Raises `needs` by the accesses to one memory, in order: remembers the last reader and the last writer of every unit, for every
    piece that is never cut. Only the last writer is kept; waiting for it covers earlier ones."""
    low, high, pieces = _cut(runs)
    library = load_checker("dependences")
    if library is None:
        sweep_pieces(runs, low, high, pieces, unit, needs)
    else:
        _sweep_native(library, runs, low, high, pieces, unit, needs)


class _Task(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("runs", "units")),
        *((name, ctypes.c_void_p) for name in ("who", "low", "high", "unit", "write", "last", "needs")),
    )


def _sweep_native(library: ctypes.CDLL, runs: Runs, low: Ints, high: Ints, pieces: int, unit: Ints, needs: Needs) -> None:
    last = np.full((pieces, 2 * needs.shape[1]), -1, np.int32)
    held = [np.ascontiguousarray(part, np.int64) for part in (runs.instruction, low, high, unit)]
    held += [np.ascontiguousarray(runs.write, np.uint8), last, needs]
    library.sweep(ctypes.byref(_Task(len(low), needs.shape[1], *(part.ctypes.data for part in held))))


def sweep_pieces(runs: Runs, low: Ints, high: Ints, pieces: int, unit: Ints, needs: Needs) -> None:
    """The dependences by numpy: runs as pieces low..high - 1."""
    units = needs.shape[1]
    last = np.full((2 * units, pieces), -1, np.int32)
    bottom: list[int] = low.tolist()
    top: list[int] = high.tolist()
    write: list[bool] = runs.write.tolist()
    heads: list[int] = np.flatnonzero(np.diff(runs.instruction, prepend=-1)).tolist()
    who: list[int] = runs.instruction.tolist()
    unit_of: list[int] = unit.tolist()
    for first, stop in zip(heads, [*heads[1:], len(who)], strict=True):
        index, touched = who[first], list[tuple[bool, slice | Ints]]()
        if stop - first <= FEW:
            touched = [(write[k], slice(bottom[k], top[k])) for k in range(first, stop)]
        else:
            touched = [(w, _pieces(low[first:stop], high[first:stop], runs.write[first:stop] == w)) for w in (True, False)]
        for writes, where in touched:
            if writes:
                np.maximum(needs[index], last[units:, where].max(axis=1, initial=-1), out=needs[index])
            np.maximum(needs[index], last[:units, where].max(axis=1, initial=-1), out=needs[index])
        for writes, where in touched:
            last[unit_of[index] + (0 if writes else units), where] = index


def _pieces(low: Ints, high: Ints, chosen: NDArray[np.bool_]) -> Ints:
    """The pieces low..high - 1 of all chosen runs."""
    starts, sizes = low[chosen], (high - low)[chosen]
    return np.arange(int(sizes.sum())) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
