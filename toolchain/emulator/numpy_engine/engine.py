"""Runs programs: each instruction's semantics become functions once for a machine.

An instruction that was met before runs again from its recorded steps: its addresses are known, its data is not.
"""

import contextlib
import functools
from collections.abc import Mapping

import numpy as np

from toolchain.analysis.state import State
from toolchain.emulator.numpy_engine.addresses import Kept
from toolchain.emulator.numpy_engine.frame import Axes, Contents, Frame, Part, ProgramSession, Recorder, Value
from toolchain.emulator.numpy_engine.statements import Statements
from toolchain.emulator.numpy_engine.transaction import Transaction
from toolchain.emulator.reference.engine import Reference
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics.instances import places
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine

PER_STEP = 128
"""Array elements that keeping a step takes, the results of its address phase aside."""


class Replay:
    """The steps of one instruction. They hold state while they run: whoever runs them takes them away from where they are kept."""

    def __init__(self, recorder: Recorder, temps: int) -> None:
        self.parts = [(part, part.at_once) for part in recorder.parts]
        self.temps = temps
        self.size = sum(_size(part) for part in recorder.parts)
        for part in recorder.parts:
            for _, frame, _ in part.steps:
                frame.temps, frame.transaction = [], None

    def run(self, session: ProgramSession) -> None:
        """Executes the steps. They do not fail: the effects of data are proved when a machine is read (toolchain/isa/semantics/ranges.py)."""
        temps: list[Value] = [None] * self.temps
        for part, at_once in self.parts:
            transaction = None if at_once else Transaction(0, watching=False)
            for action, frame, _ in part.steps:
                frame.session, frame.temps, frame.transaction = session, temps, transaction
                action(frame)
            if transaction is not None:
                transaction.commit()
        temps.clear()


def _size(part: Part) -> int:
    """Array elements that only these steps hold."""
    held = [value for _, frame, _ in part.steps if frame.keys is None for value in (*frame.names, frame.mask)]
    return PER_STEP * len(part.steps) + sum(getattr(value, "size", 0) for value in held)


def run(program: Program, state: State, order: Ints) -> None:
    """Executes the instructions in `order`, changing `state`. Raises UserError E07xx, the instruction named."""
    engine = Vectorised(program, state)
    with np.errstate(all="ignore"), contextlib.closing(engine.session):
        for index in order.tolist():
            engine.execute(index)


class Compiled:
    """One kind of instruction. met: the keys of executed instructions; replays: by key, the steps of those executed more than once."""

    def __init__(self, statements: Statements, kept: Kept) -> None:
        self.action = statements.compile()
        self.keys, self.axes, self.in_turn, self.settled = statements.keys, statements.axes, statements.in_turn, statements.reads.settled
        self.everything = self.keys.number(statements.reads.all)
        self.kept = kept
        self.replays: dict[int, Replay] = kept.table()
        self.met: dict[int, bool] = kept.table()

    def execute(self, session: ProgramSession, stream: int, fields: tuple[int, ...], place: Mapping[str, Value]) -> None:
        """Executes one instruction."""
        if not self.settled:
            self.action(Frame(session, self.axes, stream, fields, place))
            return
        key = self.keys.key(self.everything, session, stream, fields)
        replay = self.replays.pop(key, None)
        if replay is None:
            replay = self._walk(session, key, stream, fields, place)
        else:
            replay.run(session)
        if replay:
            self.replays[key] = replay

    def _walk(self, session: ProgramSession, key: int, stream: int, fields: tuple[int, ...], place: Mapping[str, Value]) -> Replay | None:
        """Through loops and branches; an instruction met for the second time is recorded, as most of those are met again."""
        frame = Frame(session, self.axes, stream, fields, place)
        frame.keys = self.keys.start()
        frame.keys[self.everything] = key
        recorder = frame.recorder = Recorder() if key in self.met else None
        self.action(frame)
        if recorder is None:
            if self.kept.room(0):
                self.met[key] = True
            return None
        if recorder.full:
            return None
        replay = Replay(recorder, self.axes.temps)
        return replay if self.kept.room(replay.size) else None


class Prepared:
    """One machine: its kinds of instructions, compiled when they are met."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.contents = machine, Contents()
        self._kept, self._kinds = Kept(), dict[int, Compiled]()

    def kind(self, number: int) -> Compiled:
        """An instruction of the machine, by number."""
        found = self._kinds.get(number)
        if found is None:
            instruction = self.machine.instructions[number]
            statements = Statements(self.machine, instruction, machine_semantics(self.machine)[instruction.name], self._kept)
            found = self._kinds[number] = Compiled(statements, self._kept)
        return found


@functools.lru_cache(maxsize=32)
def _prepared(key: MachineKey) -> Prepared:
    return Prepared(key.machine)


class Vectorised:
    """One program on one state."""

    def __init__(self, program: Program, state: State) -> None:
        self.program, self.state = program, state
        self.prepared = _prepared(MachineKey(program.machine))
        self.session = ProgramSession(program, state, self.prepared.contents)
        self.fields: list[list[tuple[int, ...]]] = [
            [tuple(row) for row in np.stack(_ordered(program, kind), axis=1).tolist()] for kind in range(len(program.columns))
        ]
        self.kinds: list[int] = program.kind.tolist()
        self.rows: list[int] = program.row.tolist()
        self.streams: list[int] = program.stream.tolist()
        self._reference = Reference(program)
        self._places: dict[tuple[int, int], Mapping[str, Value]] = {}

    def execute(self, index: int) -> None:
        """Executes one instruction."""
        kind, stream = self.kinds[index], self.streams[index]
        compiled, self.session.index = self.prepared.kind(kind), index
        if compiled.in_turn:
            self._reference.execute(index, self.state)
            self.session.versions.all_changed()
            return
        compiled.execute(self.session, stream, self.fields[kind][self.rows[index]], self._place(kind, stream, compiled.axes))

    def _place(self, kind: int, stream: int, axes: Axes) -> Mapping[str, Value]:
        """The index at each topology level; an array for a lockstep level."""
        found = self._places.get((kind, stream))
        if found is None:
            place: dict[str, Value] = dict(places(self.program.machine, stream)[0])
            for i, level in enumerate(axes.replicas):
                place[level.name] = np.arange(level.count).reshape(axes.loop_shape(axes.nested + i, level.count))
            found = self._places[kind, stream] = place
        return found


def _ordered(program: Program, kind: int) -> list[Ints]:
    """The columns of a kind in the order of its fields."""
    return [program.columns[kind][f.name] for f in program.machine.instructions[kind].fields]
