"""Scalar expressions: the address phase. Fields, loop variables, registers, control memories."""

from collections.abc import Callable, Mapping

import numpy as np

from toolchain.emulator.numpy_engine.addresses import Address, Addresses
from toolchain.emulator.numpy_engine.dependencies import Dependencies
from toolchain.emulator.numpy_engine.expressions import Expressions
from toolchain.emulator.numpy_engine.frame import Axes, Frame, Run, Value
from toolchain.emulator.numpy_engine.memory import Keys
from toolchain.emulator.numpy_engine.numerics import is_array, is_int, select, uniform
from toolchain.emulator.numpy_engine.storage import Storage
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import scope_levels
from toolchain.isa.semantics.traverse import addresses
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine, Memory, RecordField


class Scalars(Expressions):
    """slots: where each name is kept in a frame."""

    def __init__(
        self,
        machine: Machine,
        instruction: Instruction,
        axes: Axes,
        slots: Mapping[str, int],
        needs: Dependencies,
        keys: Keys,
    ) -> None:
        self.machine, self.axes, self.slots, self.storage = machine, axes, slots, Storage(machine)
        self.needs, self.keys = needs, keys
        self.fields = {f.name: i for i, f in enumerate(instruction.fields)}
        self.addresses = Addresses(machine, self.value)
        self.watch: Callable[[ir.Access, Address], Address] = lambda _, find: find

    def lift(self, value: Value) -> Value:
        return value

    def remembered_truth(self, condition: Expr) -> Run:
        """`truth`, not asked again while nothing it needs changes."""
        return self.keys.remember(self.needs.of(condition), self.truth(condition))

    def remembered(self, e: Expr) -> Run:
        """`value`, not computed again while nothing it needs changes; only where every lane is wanted."""
        return self.value(e) if isinstance(e, ex.Const | ir.FieldRef) else self.keys.remember(self.needs.of(e), self.value(e))

    def address(self, access: ir.Access) -> Address:
        """The function that finds an access's element, not computed again while nothing it needs changes."""
        return self.keys.remember(self.needs.of(*addresses(access)), self.addresses.find(access))

    def leaf(self, e: Expr) -> Run:
        match e:
            case ir.FieldRef(name=name):
                at = self.fields[name]
                return lambda f: f.fields[at]
            case ir.Var(name=name):
                at = self.slots[name]
                return lambda f: f.names[at]
            case ir.Place(level=level):
                return lambda f: f.places[level]
            case ir.RegisterRead():
                return self._register(e)
            case ir.ControlRead(access=access, member=member):
                return self._control(access, member)
            case _:
                raise TypeError(e)

    def choose(self, e: ex.Choose) -> Run:
        return self.chosen(self.truth(e.condition), self.value(e.then), self.value(e.other), select)

    def chosen(self, test: Run, then: Run, other: Run, merge: Callable[[Value, Value, Value], Value]) -> Run:
        """`then` where the test holds and `other` elsewhere, each asked for only where it is wanted; merge: (where, then, other)."""

        def choose(f: Frame) -> Value:
            found = test(f)
            if not is_array(found):
                return then(f) if found else other(f)
            before = f.mask
            self.narrow_to(f, found)
            yes = then(f)
            f.mask = before
            self.narrow_to(f, ~found)
            no = other(f)
            f.mask = before
            return merge(found, yes, no)

        return choose

    def _control(self, access: ir.Access, member: str) -> Run:
        """The words of a control memory are taken apart at each read: they change while the program runs."""
        find = self.watch(access, self.addresses.find(access))
        words = self.storage.words(access.view)
        part = next((f for f in access.view.element.record if f.name == member), None)
        take = _bits(part) if part else int

        def read(f: Frame) -> Value:
            at = find(f)
            held = f.session.arrays[words]
            if is_int(at):
                return take(held.item(at))
            return uniform(take(held[at].astype(np.int64)) if part else held[at].astype(np.int64))

        return read

    def _register(self, e: ir.RegisterRead) -> Run:
        memory, index = self.machine.memory[e.register], self.value(e.index)
        where = self.addresses.instance(memory.scope, ())
        name, number = memory.name, 0 if memory.host else self._latched_field(memory, e.field_name)
        alone = not {level.name for level in self.axes.replicas} & {level.name for level in scope_levels(self.machine, memory.scope)}

        def read(f: Frame) -> Value:
            at, here, state = index(f), where(f), f.session.state
            if is_int(at) and alone:
                if not 0 <= at < memory.depths[0]:
                    raise register_fault(f, memory, at)
                if memory.host:
                    return state.host[name].item(here, at)
                if not state.written[name].item(here, at):
                    raise f.fault("E0702", f"{name}[{at}] is read before any {memory.latches} has set it")
                return state.latched[name].item(here, at, number)
            return self._read_many(f, memory, state.host[name] if memory.host else state.latched[name][:, :, number], here, at)

        return read

    def _latched_field(self, memory: Memory, name: str) -> int:
        return [f.name for f in self.machine.instruction[memory.latches].fields].index(name)

    def _read_many(self, f: Frame, memory: Memory, values: Value, here: Value, at: Value) -> Value:
        numbers = np.asarray(at)
        wrong = (numbers < 0) | (numbers >= memory.depths[0])
        if wrong.any():
            bad = wrong if f.mask is None else wrong & f.mask
            if bad.any():
                raise register_fault(f, memory, int(np.broadcast_to(numbers, bad.shape)[bad][0]))
            at = np.where(wrong, 0, numbers)
        if not memory.host:
            unset = ~f.session.state.written[memory.name][here, at]
            bad = unset if f.mask is None else unset & f.mask
            if bad.any():
                raise f.fault("E0702", f"{memory.name}[{int(np.broadcast_to(at, bad.shape)[bad][0])}] is read before any {memory.latches} has set it")
        return uniform(values[here, at])


def register_fault(f: Frame, memory: Memory, at: int) -> Exception:
    """The error for a register number that there is not."""
    return f.fault("E0701", f"{memory.name}[{at}] is outside '{memory.name}', which holds {memory.depths[0]}")


def _bits(part: RecordField) -> Callable[[Value], Value]:
    lsb, mask, low = part.lsb, (1 << part.type.bits) - 1, part.type.low
    if not part.type.signed:
        return lambda word: (word >> lsb) & mask
    return lambda word: (((word >> lsb) - low) & mask) + low
