"""The reference engine: interprets semantics one instruction, one iteration, one lane at a time. Slow and obviously right.

A statement reads every element it needs, computes all lanes exactly, narrows them as the memory or temporary declares,
then writes. Lockstep replicas run each statement one after the other before the next statement.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolchain.analysis.state import Element, State, narrow, pack, read_bytes, unpack, write_bytes
from toolchain.emulator.reference.frame import Frame, Value
from toolchain.emulator.reference.scalar import each_lane, element_of, lane_of, latched_names, position, value_of
from toolchain.isa.program import Ints, Program
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import access_differs, instance, places, replica_levels, replica_names
from toolchain.isa.semantics.loops import MOST_ITERATIONS, TOO_MANY, Chain, chains, total_iterations
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine

Frames = list[Frame]
Action = Callable[[Frames], None]
"""Executes a statement for the replicas that take part."""


def run(program: Program, state: State, order: Ints) -> None:
    """Executes the instructions in `order`, changing `state`. Raises UserError E07xx, the instruction named."""
    engine = Reference(program)
    for index in order.tolist():
        engine.execute(index, state)


def ignore(_: Element) -> None:
    """Hears nothing."""


@dataclass(frozen=True)
class Listener:
    """Told of every element of data that is read, and of every element before it is written."""

    reads: Callable[[Element], None] = ignore
    writes: Callable[[Element], None] = ignore


QUIET = Listener()


class Reference:
    """Executes single instructions of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def execute(self, index: int, state: State, listener: Listener = QUIET) -> None:
        """Executes instruction `index` on `state`."""
        name = self.program.machine.instructions[int(self.program.kind[index])].name
        _action(MachineKey(self.program.machine), name)(self.frames(index, state, listener))

    def frames(self, index: int, state: State, listener: Listener = QUIET) -> Frames:
        """One frame for each replica that executes the instruction."""
        program, machine = self.program, self.program.machine
        instruction = machine.instructions[int(program.kind[index])]
        fields = {f.name: program.field(index, f.name) for f in instruction.fields}
        extents = machine_semantics(machine)[instruction.name].lanes
        label, replicas = program.label(index), places(machine, int(program.stream[index]))
        made = [Frame(state, label, fields, place, extents, listener.reads, listener.writes) for place in replicas]
        if not any(instruction.name in memory.latches for memory in machine.memories):
            for frame in made:
                frame.latched = {}
        return made


@functools.lru_cache(maxsize=256)
def _action(key: MachineKey, name: str) -> Action:
    """The semantics of an instruction as a function, made once for each Machine object."""
    return Statements(key.machine, machine_semantics(key.machine)[name]).body()


@dataclass(frozen=True)
class Statements:
    """Turns the statements of one instruction into functions."""

    machine: Machine
    semantics: ir.Semantics

    @functools.cached_property
    def chains(self) -> dict[int, Chain]:
        """Loops whose work is counted together."""
        return chains(self.semantics.body)

    def body(self) -> Action:
        """The whole instruction."""
        return self.block(self.semantics.body)

    def block(self, body: Sequence[ir.Stmt]) -> Action:
        """Statements one after the other."""
        actions = [self._statement(stmt) for stmt in body]

        def run_all(frames: Frames) -> None:
            for action in actions:
                action(frames)

        return run_all

    def _statement(self, stmt: ir.Stmt) -> Action:
        match stmt:
            case ir.For():
                return self._for(stmt)
            case ir.If():
                return self._if(stmt)
            case ir.Let(name=name, value=value):
                return _each(_let(name, value_of(value)))
            case ir.SetTemp():
                return _each(_set_temp(stmt, self.semantics.temps[stmt.name]))
            case ir.Store():
                write = _copy(stmt) if stmt.access.lanes is None else _store(self.machine, stmt)
                return _each(write) if self._differs(stmt.access) else lambda frames: write(frames[0])
            case ir.Latch(register=register, index=index):
                return _each(_latch(register, value_of(index)))
            case _:
                raise TypeError(stmt)

    def _differs(self, access: ir.Access) -> bool:
        """Whether each replica writes an element of its own; a shared one is written once."""
        levels = {level.name for level in replica_levels(self.machine)}
        return access_differs(self.machine, access, levels, replica_names(self.machine, self.semantics))

    def _for(self, stmt: ir.For) -> Action:
        return self.loop(stmt, self.block(stmt.body))

    def loop(self, stmt: ir.For, body: Action) -> Action:
        """A loop around `body`; replicas may have bounds of their own."""
        start, stop, count = value_of(stmt.start), value_of(stmt.stop), _count_work(self.chains.get(id(stmt), ()))

        def loop(frames: Frames) -> None:
            count(frames[0])
            ranges = [range(start(frame), stop(frame)) for frame in frames]
            together = all(span == ranges[0] for span in ranges)
            for number in ranges[0] if together else sorted({number for span in ranges for number in span}):
                taking = [frame for frame, span in zip(frames, ranges, strict=True) if number in span]
                for frame in taking:
                    frame.names[stmt.var] = number
                body(taking)

        return loop

    def _if(self, stmt: ir.If) -> Action:
        condition, then, other = value_of(stmt.condition), self.block(stmt.then), self.block(stmt.other)

        def branch(frames: Frames) -> None:
            taken = [bool(condition(frame)) for frame in frames]
            for wanted, block in ((True, then), (False, other)):
                taking = [frame for frame, took in zip(frames, taken, strict=True) if took == wanted]
                if taking:
                    block(taking)

        return branch


def _count_work(chain: Chain) -> Callable[[Frame], None]:
    """Refuses to start loops that would run for ever."""
    bounds = [(value_of(loop.start), value_of(loop.stop)) for loop in chain]

    def count(frame: Frame) -> None:
        if bounds:
            frame.iterations += total_iterations([stop(frame) - start(frame) for start, stop in bounds])
            if frame.iterations > MOST_ITERATIONS:
                raise frame.fault("E0706", TOO_MANY)

    return count


def _each(action: Callable[[Frame], None]) -> Action:
    def run_each(frames: Frames) -> None:
        for frame in frames:
            action(frame)

    return run_each


def _let(name: str, value: Value) -> Callable[[Frame], None]:
    def let(frame: Frame) -> None:
        frame.names[name] = value(frame)

    return let


def _latch(register: str, index: Value) -> Callable[[Frame], None]:
    def latch(frame: Frame) -> None:
        state = frame.state
        memory, at = state.machine.memory[register], index(frame)
        if not 0 <= at < memory.depths[0]:
            raise frame.fault("E0701", f"{register}[{at}] is outside '{register}', which holds {memory.depths[0]}")
        where = instance(state.machine, memory.scope, frame.place)
        state.latched[register][where, at] = [frame.fields[name] for name in latched_names(MachineKey(state.machine), register)]
        state.written[register][where, at] = True

    return latch


def _set_temp(stmt: ir.SetTemp, kind: ir.TempType) -> Callable[[Frame], None]:
    value, name, low, high = value_of(stmt.value), stmt.name, kind.type.low, kind.type.high

    def assign(frame: Frame) -> None:
        frame.seen.clear()
        extents = [frame.extents[lane] for lane in kind.lanes]
        old = frame.temps.get(name, [])
        new: dict[int, int] = {}
        for _ in each_lane(frame, stmt.lanes):
            at = position(stmt.lanes, frame.lanes, extents)
            total = (old[at] if stmt.accumulate else 0) + value(frame)
            new[at] = total if low <= total <= high else _fitted(frame, stmt.name, kind, total)
        frame.temps[name] = [new[at] for at in range(len(new))]

    return assign


def _fitted(frame: Frame, name: str, kind: ir.TempType, value: int) -> int:
    """A value that a temporary cannot hold, as the temporary keeps it."""
    return narrow(value, kind.type, kind.overflow, lambda: frame.fault("E0705", f"{name} is {kind.type} and cannot hold a result"))


def _store(machine: Machine, stmt: ir.Store) -> Callable[[Frame], None]:
    find, lane, value, view = element_of(stmt.access), lane_of(stmt.access), value_of(stmt.value), stmt.access.view
    overflow, kind = machine.memory[view.memory].overflow, view.element.scalar
    kept = [lane for lane in stmt.access.lanes or () if isinstance(lane, str)]

    def store(frame: Frame) -> None:
        frame.seen.clear()
        element = find(frame)
        old = unpack(view, read_bytes(frame.state, element))
        if stmt.accumulate or not kept:
            frame.reads(element)
        new = list(old)
        for _ in each_lane(frame, kept):
            at = lane(frame)
            total = (old[at] if stmt.accumulate else 0) + value(frame)
            new[at] = narrow(total, kind, overflow, lambda: frame.fault("E0705", f"'{view.name}' is {kind} and cannot hold a result"))
        frame.writes(element)
        write_bytes(frame.state, element, pack(view, new))

    return store


def _copy(stmt: ir.Store) -> Callable[[Frame], None]:
    """A whole element, as it is stored: another element of its size, or zeros."""
    find, source = element_of(stmt.access), _bytes_of(stmt.value, stmt.access.view.element.bytes)

    def copy(frame: Frame) -> None:
        data, element = source(frame), find(frame)
        frame.writes(element)
        write_bytes(frame.state, element, data)

    return copy


def _bytes_of(e: Expr, size: int) -> Callable[[Frame], bytes]:
    match e:
        case ex.Choose(condition=condition, then=then, other=other):
            test, yes, no = value_of(condition), _bytes_of(then, size), _bytes_of(other, size)
            return lambda frame: yes(frame) if test(frame) else no(frame)
        case ir.Load(access=access) | ir.ControlRead(access=access, member=""):
            find = element_of(access)

            def read(frame: Frame) -> bytes:
                element = find(frame)
                frame.reads(element)
                return read_bytes(frame.state, element)

            return read
        case ex.Const(value=0):
            return lambda _: bytes(size)
        case _:
            raise TypeError(e)


__all__ = ["Listener", "Reference", "run"]
