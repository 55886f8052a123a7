"""For every read of a latched register, the instruction whose fields it holds; all instructions at once."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Runs, join_runs, merge_runs
from toolchain.isa.footprint.loop_nest import Nest, machine_nests
from toolchain.isa.footprint.rows import Iterations, Rows, iterations
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import scope_levels, stream_levels
from toolchain.spec.arrays import distinct
from toolchain.spec.errors import fail
from toolchain.spec.expr import Const
from toolchain.spec.fingerprint import MachineKey

MOST_SLOTS = 1 << 31
"""Slots of all instances of a register or control memory: a slot and a position share 64 bits."""


class Contents(Protocol):
    """The contents of memories and registers before a program runs; toolchain/analysis/state.py's State is one."""

    @property
    def memories(self) -> Mapping[str, NDArray[np.uint8]]: ...
    @property
    def host(self) -> Mapping[str, NDArray[np.int64]]: ...
    @property
    def latched(self) -> Mapping[str, NDArray[np.int64]]: ...


@dataclass(frozen=True)
class Latches:
    """Every write to one latched register, sorted by (slot, position in the order); slot = instance * depth + index."""

    slot: Ints
    position: Ints
    instruction: Ints

    @cached_property
    def key(self) -> Ints:
        return self.slot << 32 | self.position

    def before(self, slot: Ints, position: Ints) -> Ints:
        """int64: the instruction whose fields each slot holds just before each position; -1 where none wrote it."""
        if not len(self.slot):
            return np.full(np.broadcast(slot, position).shape, -1, np.int64)
        found = np.searchsorted(self.key, slot << 32 | position) - 1
        held = (found >= 0) & (self.slot[found] == slot)
        return np.where(held, self.instruction[found], -1)


def sorted_latches(slot: Ints, position: Ints, instruction: Ints) -> Latches:
    """Latches in any order, sorted."""
    rank = np.lexsort((position, slot))
    return Latches(slot[rank], position[rank], instruction[rank])


def positions(order: Ints, count: int) -> Ints:
    """int64 [count]: where each instruction stands in the order; those that never run stand last."""
    found = np.full(count, len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def register_instance(program: Program, register: str, instructions: Ints) -> Ints:
    """int64: which instance of a register each instruction means: the one of its stream's place (of the first replica)."""
    machine = program.machine
    levels = scope_levels(machine, machine.memory[register].scope)
    below, inner = 1, 1
    for level in stream_levels(machine)[len(levels) :]:
        below *= level.count
    for level in levels[len(stream_levels(machine)) :]:
        inner *= level.count
    return program.stream[instructions] // below * inner


@dataclass(frozen=True)
class Reads:
    """Reads of one latched register: who reads which index, and who wrote it (-1: no instruction)."""

    instruction: Ints
    index: Ints
    source: Ints


class Provenance:
    """Contents of registers at each read, for a program in one order of execution."""

    def __init__(self, program: Program, contents: Contents, order: Ints) -> None:
        self.program, self.contents, self.order = program, contents, order
        self.position = positions(order, len(program))
        self._latches: dict[str, Latches] = {}
        self._rows: dict[int, Rows] = {}

    def rows(self, kind: int) -> Rows:
        """The rows of one kind of instruction, for evaluating its expressions; without control memories."""
        if kind not in self._rows:
            self._rows[kind] = Rows(self.program, kind, np.flatnonzero(self.program.kind == kind), self.read, no_controls)
        return self._rows[kind]

    def latches(self, register: str) -> Latches:
        """Every write to a register; indices outside of it are left out."""
        if register not in self._latches:
            depth = self.program.machine.memory[register].depths[0]
            visits = list(self._visits("latch", register))
            who, index = (np.concatenate([np.zeros(0, np.int64), *(part[i] for part in visits)]) for i in (0, 1))
            inside = (index >= 0) & (index < depth)
            who, index = who[inside], index[inside]
            slot = register_instance(self.program, register, who) * depth + index
            self._latches[register] = sorted_latches(slot, self.position[who], who)
        return self._latches[register]

    def source(self, register: str, instructions: Ints, index: Ints) -> Ints:
        """int64: the instruction that last latched register[index] before each of `instructions`, or -1."""
        depth = self.program.machine.memory[register].depths[0]
        slot = register_instance(self.program, register, instructions) * depth + np.clip(index, 0, depth - 1)
        return self.latches(register).before(slot, self.position[instructions])

    def read(self, e: ir.RegisterRead, instructions: Ints, index: Ints) -> Ints:
        """int64: the value of register[index] (of its field, where it latches) when each instruction reads it.

        Where no instruction wrote it, the value from before the program ran. An index outside is taken to its nearest end.
        """
        memory = self.program.machine.memory[e.register]
        place = np.clip(index, 0, memory.depths[0] - 1)
        instance = register_instance(self.program, e.register, instructions)
        if not memory.latches:
            return self.contents.host[e.register][instance, place]
        source = self.source(e.register, instructions, place)
        number = [f.name for f in self.program.machine.latched(memory)].index(e.field_name)
        value = self.contents.latched[e.register][instance, place, number]
        for kind, instruction in enumerate(self.program.machine.instructions):
            if instruction.name in memory.latches:
                known = np.flatnonzero((source >= 0) & (self.program.kind[source] == kind))
                value[known] = self.program.columns[kind][e.field_name][self.program.row[source[known]]]
        return value

    def reads(self, register: str) -> Reads:
        """Every read of a latched register, each (instruction, index) once, in the order of execution; indices outside left out."""
        depth = self.program.machine.memory[register].depths[0]
        keys = [np.zeros(0, np.int64)]
        for who, index in self._visits("register", register):
            inside = (index >= 0) & (index < depth)
            keys.append(self.position[who[inside]] * depth + index[inside])
        position, index = np.divmod(distinct(np.concatenate(keys)), depth)
        instruction = self.order[position]
        return Reads(instruction, index, self.source(register, instruction, index))

    def strays(self, register: str) -> tuple[Ints, Ints]:
        """(instruction, index) of every use of an entry that a register does not have, by instruction."""
        depth = self.program.machine.memory[register].depths[0]
        visits = [visit for what in ("register", "latch") for visit in self._visits(what, register, depth)]
        wrong = [np.stack([who[bad], index[bad]], 1) for who, index in visits if (bad := (index < 0) | (index >= depth)).any()]
        pairs = np.unique(np.concatenate(wrong), axis=0) if wrong else np.zeros((0, 2), np.int64)
        return pairs[:, 0], pairs[:, 1]

    def _visits(self, what: str, register: str, known: int = 0) -> Iterator[tuple[Ints, Ints]]:
        """(instruction, index) of every read of a register, or every latch; those with a constant index below `known` may be left out."""
        for kind, nest in _register_nests(MachineKey(self.program.machine), what, register):
            index = nest.occurrence.index[0]
            if not (isinstance(index, Const) and 0 <= index.value < known):
                for frame in iterations(self.rows(kind).frame(), nest.path):
                    yield frame.instructions, frame.evaluate(index)


@functools.lru_cache(maxsize=1024)
def _register_nests(key: MachineKey, what: str, register: str) -> tuple[tuple[int, Nest], ...]:
    """(kind, nest) of every place in the semantics that reads or latches a register."""
    nests = machine_nests(key.machine)
    found = [(kind, nest) for kind, instruction in enumerate(key.machine.instructions) for nest in nests[instruction.name]]
    return tuple((kind, nest) for kind, nest in found if nest.occurrence.kind == what and nest.occurrence.target == register)


def no_controls(e: ir.ControlRead, _: Iterations) -> Ints:
    """Refuses to read a control memory."""
    what = f"'{e.access.view.name}' decides a register's index, or where a control memory is loaded"
    raise fail("E0608", what, e.span, "such an address must not depend on a control memory itself")


def register_runs(provenance: Provenance) -> Runs:
    """Every read and every latch, one granule an entry; merged and sorted as in Footprints."""
    return merge_runs(join_runs(list(_register_runs(provenance))))


def _register_runs(provenance: Provenance) -> Iterator[Runs]:
    program = provenance.program
    for number, memory in enumerate(program.machine.memories):
        if memory.latches:
            reads, latches = provenance.reads(memory.name), provenance.latches(memory.name)
            slot = register_instance(program, memory.name, reads.instruction) * memory.depths[0] + reads.index
            for who, where, write in ((reads.instruction, slot, False), (latches.instruction, latches.slot, True)):
                yield Runs(who, np.full(len(who), number), np.full(len(who), write), where, where + 1)
