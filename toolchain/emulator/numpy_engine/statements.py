"""Statements turned into functions of a frame."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from toolchain.emulator.numpy_engine.addresses import Address, Kept, Keys, Scalars, register_fault
from toolchain.emulator.numpy_engine.contraction import products
from toolchain.emulator.numpy_engine.data import Data, copied
from toolchain.emulator.numpy_engine.expressions import uniform
from toolchain.emulator.numpy_engine.frame import Axes, Frame, Value
from toolchain.emulator.numpy_engine.gathering import Gathering
from toolchain.emulator.numpy_engine.loops import Action, Loop, branch, sequence
from toolchain.emulator.numpy_engine.storage import is_whole, step_of
from toolchain.emulator.numpy_engine.structure import Dependencies, Path, Reads, stores
from toolchain.emulator.numpy_engine.transaction import Site
from toolchain.emulator.numpy_engine.writes import Writes
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import scope_levels
from toolchain.isa.semantics.loops import chains
from toolchain.isa.semantics.traverse import addresses, nodes
from toolchain.spec import expr as ex
from toolchain.spec.model import Instruction, Machine


class Statements:
    """Compiles one instruction. in_turn: it must be interpreted, replica by replica."""

    def __init__(self, machine: Machine, instruction: Instruction, semantics: ir.Semantics, kept: Kept) -> None:
        self.machine, self.instruction, self.semantics = machine, instruction, semantics
        self.reads = Reads(machine, instruction, semantics)
        self.structure = self.reads.structure
        self.slots = {name: i for i, name in enumerate(_names(semantics.body))}
        self.temps = {name: i for i, name in enumerate(semantics.temps)}
        self.axes = Axes(machine, semantics, self.slots)
        self.needs, self.keys = Dependencies(self.reads), Keys(kept)
        self.scalars = Scalars(machine, instruction, self.axes, self.slots, self.needs, self.keys)
        self.scalars.watch = self._watch
        self.data = Data(self.scalars, self.temps, lambda e: products(self.data, e))
        self.gathering = Gathering(self.data, self.structure, semantics)
        self.writes = Writes(self.data)
        self._written = {s.access.view.memory for s in stores(semantics.body)}
        self.in_turn = any(replicas_meet(machine, stmt, self.axes) for stmt in stores(semantics.body))
        self._path: Path = ()
        self._order, self._chains = 0, chains(semantics.body)
        self._seen: set[str] = set()

    def compile(self) -> Action:
        """The whole instruction."""
        return self._block(self.semantics.body)

    def _block(self, body: Iterable[ir.Stmt]) -> Action:
        return sequence([self._statement(stmt) for stmt in body])

    def _statement(self, stmt: ir.Stmt) -> Action:
        self._order += 2
        match stmt:
            case ir.For():
                return self._for(stmt)
            case ir.If():
                return self._if(stmt)
            case ir.Let():
                return self._let(stmt)
            case ir.SetTemp():
                again = stmt.name in self._seen
                self._seen.add(stmt.name)
                return _step(self.gathering.set_temp(stmt, again), False)
            case ir.Store():
                return _step(self._store(stmt), True)
            case ir.Latch():
                return _step(self._latch(stmt), True)
            case _:
                raise TypeError(stmt)

    def _if(self, stmt: ir.If) -> Action:
        test, before = self.scalars.remembered_truth(stmt.condition), self.needs.here
        self.needs.here = self.needs.of(stmt.condition)
        then, other = (self._block(side) if side else None for side in (stmt.then, stmt.other))
        self.needs.here = before
        return branch(test, then, other)

    def _for(self, stmt: ir.For) -> Action:
        start, stop = self.scalars.value(stmt.start), self.scalars.value(stmt.stop)
        depth, before = len(self._path), self.needs.here
        self._path, self.needs.here = (*self._path, stmt.var), self.needs.of(stmt.start, stmt.stop)
        body = self._block(stmt.body)
        self._path, self.needs.here = self._path[:-1], before
        serial = stmt.var in self.structure.serial
        inner = [(self.scalars.value(x.start), self.scalars.value(x.stop)) for x in self._chains.get(id(stmt), ())]
        return Loop(self.axes, self.keys, self.needs.all, self.slots[stmt.var], depth, serial, start, stop, body, inner)

    def _let(self, stmt: ir.Let) -> Action:
        slot, needs = self.slots[stmt.name], self.needs.of(stmt.value)
        compute = self.scalars.value(stmt.value)
        value = self.keys.remember(needs, lambda f: uniform(compute(f)))
        again = stmt.name in self._seen
        self._seen.add(stmt.name)

        def let(f: Frame) -> None:
            f.names[slot] = value(f)

        def let_some(f: Frame) -> None:
            found = value(f)
            f.names[slot] = found if f.mask is None or f.names[slot] is None else np.where(f.mask, found, f.names[slot])

        return let_some if again else let

    def _site(self, access: ir.Access, order: int) -> Site:
        memory = self.machine.memory[access.view.memory]
        step, size = step_of(memory, access.view), access.view.element.bytes
        return Site(order, self._path, memory.name, size, step, memory.kind == "ring" and step != size)

    def _watch(self, access: ir.Access, find: Address) -> Address:
        """Notes reads of a memory that the instruction writes."""
        if access.view.memory not in self._written:
            return find
        site = self._site(access, self._order)

        def watched(f: Frame) -> Value:
            at = find(f)
            if f.transaction is not None:
                f.transaction.note(site, "read", at, f.times, f.mask)
            return at

        return watched

    def _store(self, stmt: ir.Store) -> Action:
        access, memory = stmt.access, self.machine.memory[stmt.access.view.memory]
        if stmt.accumulate and (memory.overflow == "saturate" or not is_whole(access)):
            plus = ex.Binary("+", ir.Load(access, span=stmt.span), stmt.value, span=stmt.span)
            return self._store(replace(stmt, value=plus, accumulate=False))
        site = self._site(access, self._order + 1)
        if access.lanes is None:
            return self.writes.copy(access, copied(self.data, stmt.value, access.view), site)
        if stmt.accumulate:
            return self.writes.add(access, stmt.value, site)
        return self.writes.store(access, stmt.value, site)

    def _latch(self, stmt: ir.Latch) -> Action:
        memory, index = self.machine.memory[stmt.register], self.scalars.value(stmt.index)
        where = self.scalars.addresses.instance(memory.scope, ())
        own = [f.name for f in self.instruction.fields]
        held = [own.index(f.name) for f in self.machine.latched(memory)]

        def latch(f: Frame) -> None:
            at, here = np.asarray(index(f)), np.asarray(where(f))
            at, here = np.broadcast_arrays(at, here) if f.mask is None else (np.broadcast_to(x, f.mask.shape)[f.mask] for x in (at, here))
            if at.size and not 0 <= at.min() <= at.max() < memory.depths[0]:
                raise register_fault(f, memory, int(at.max() if at.min() >= 0 else at.min()))
            f.session.state.latched[memory.name][here, at] = [f.fields[number] for number in held]
            f.session.state.written[memory.name][here, at] = True
            f.session.versions.changed(memory.name)

        return latch


def _step(action: Action, writes: bool) -> Action:
    """An action that a recorder notes."""

    def step(f: Frame) -> None:
        recorder = f.recorder
        if recorder is None or recorder.full:
            action(f)
            return
        frame = f.snapshot()
        recorder.step(action, frame, writes)
        action(frame)

    return step


def replicas_meet(machine: Machine, stmt: ir.Store, axes: Axes) -> bool:
    """Whether a lockstep replica may read an element that the one before it wrote in the same statement: only one after the other is exact."""
    shared = machine.memory[stmt.access.view.memory]
    levels = {level.name for level in axes.replicas} - {level.name for level in scope_levels(machine, shared.scope)}
    parts = (stmt.value, *addresses(stmt.access))
    read = {e.access.view.memory for part in parts for e in nodes(part) if isinstance(e, ir.Load | ir.ControlRead)}
    return bool(levels) and shared.name in read | ({shared.name} if stmt.accumulate else set[str]())


def _names(body: Iterable[ir.Stmt]) -> list[str]:
    """Every loop variable and scalar, once."""
    found: dict[str, None] = {}
    for stmt in body:
        match stmt:
            case ir.For(var=var, body=inner):
                found[var] = None
                found.update(dict.fromkeys(_names(inner)))
            case ir.If(then=then, other=other):
                found.update(dict.fromkeys([*_names(then), *_names(other)]))
            case ir.Let(name=name):
                found[name] = None
            case _:
                pass
    return list(found)
