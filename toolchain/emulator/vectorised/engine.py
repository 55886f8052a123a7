"""Runs programs: each instruction's semantics become functions once for a run."""

from collections.abc import Mapping

import numpy as np

from toolchain.emulator.reference.engine import Reference
from toolchain.emulator.state import State
from toolchain.emulator.vectorised.frame import Frame, Value
from toolchain.emulator.vectorised.loops import Action
from toolchain.emulator.vectorised.statements import Statements
from toolchain.emulator.vectorised.storage import Storage
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics.instances import places
from toolchain.isa.semantics.machine import machine_semantics


def run(program: Program, state: State, order: Ints) -> None:
    """Executes the instructions in `order`, changing `state`. Raises UserError E07xx, the instruction named."""
    engine = Vectorised(program, state)
    with np.errstate(all="ignore"):
        for index in order.tolist():
            engine.execute(index)


class Vectorised:
    """One program on one state."""

    def __init__(self, program: Program, state: State) -> None:
        self.program, self.state = program, state
        self.storage = Storage(program.machine, state)
        self.fields: list[list[tuple[int, ...]]] = [
            [tuple(row) for row in np.stack(_ordered(program, kind), axis=1).tolist()] for kind in range(len(program.columns))
        ]
        self.kinds: list[int] = program.kind.tolist()
        self.rows: list[int] = program.row.tolist()
        self.streams: list[int] = program.stream.tolist()
        self._reference = Reference(program)
        self._compiled: dict[int, tuple[Statements, Action]] = {}
        self._places: dict[int, Mapping[str, Value]] = {}

    def execute(self, index: int) -> None:
        """Executes one instruction."""
        kind, stream = self.kinds[index], self.streams[index]
        statements, action = self._compiled.get(kind) or self._compile(kind)
        if statements.in_turn:
            self._execute_in_turn(index)
            return
        place = self._places.get(stream)
        if place is None:
            place = self._places[stream] = places(self.program.machine, stream)[0]
        axes = statements.axes
        if axes.replicas:
            place = {**place, **{x.name: np.arange(x.count).reshape(axes.loop_shape(axes.nested + i, x.count)) for i, x in enumerate(axes.replicas)}}
        fields: tuple[int, ...] = self.fields[kind][self.rows[index]]
        frame = Frame(self.state, axes, lambda: self.program.label(index), stream, fields, place)
        frame.keys = statements.keys.start()
        action(frame)

    def _execute_in_turn(self, index: int) -> None:
        self._reference.execute(index, self.state)
        self._forget()

    def _forget(self) -> None:
        for statements, _ in self._compiled.values():
            statements.keys.forget()

    def _compile(self, kind: int) -> tuple[Statements, Action]:
        machine = self.program.machine
        instruction = machine.instructions[kind]
        statements = Statements(machine, instruction, machine_semantics(machine)[instruction.name], self.state, self.storage, self._forget)
        found = self._compiled[kind] = (statements, statements.compile())
        return found


def _ordered(program: Program, kind: int) -> list[Ints]:
    """The columns of a kind in the order of its fields."""
    return [program.columns[kind][f.name] for f in program.machine.instructions[kind].fields]
