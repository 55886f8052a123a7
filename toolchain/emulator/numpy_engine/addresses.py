"""The address phase: scalar expressions of fields, loop variables, registers and control memories, and the positions of an access.

Positions count over a memory's instances laid end to end; bounds are checked.

A part of the address phase depends on some fields, and perhaps on registers and control memories: while those are equal it gives the same again, so
its results are kept for the next instruction of the same kind. Programs repeat themselves tile after tile, and are run more than once.
"""

import itertools
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import cast

import numpy as np

from toolchain.emulator.numpy_engine.expressions import Expressions, in_range, is_array, is_int, select, uniform
from toolchain.emulator.numpy_engine.frame import Axes, Frame, ProgramSession, Run, Value
from toolchain.emulator.numpy_engine.storage import Storage, step_of
from toolchain.emulator.numpy_engine.structure import Dependencies, Needs
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import scope_levels
from toolchain.isa.semantics.traverse import addresses
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import Instruction, Machine, Memory, RecordField, View

ELEMENTS = 1 << 23
"""Array elements that are kept for one machine at most: 64 MB."""

ENTRY = 16
"""The cost of keeping an entry, in array elements."""

KEYS = 4096
"""Different values of the needed fields and contents that are told apart at once."""

MISSING = object()


def _taking(fields: tuple[int, ...]) -> Callable[[tuple[int, ...]], object]:
    """The function that picks these fields."""
    return cast("Callable[..., object]", itemgetter(*fields)) if fields else lambda _: ()


class Kept:
    """Counts the elements kept for one machine; when they are too many, all are dropped."""

    def __init__(self) -> None:
        self._elements = 0
        self._tables: list[dict[int, Value]] = []

    def table(self) -> dict[int, Value]:
        """A new place to keep things in, by key."""
        found: dict[int, Value] = {}
        self._tables.append(found)
        return found

    def room(self, size: int) -> bool:
        """Whether so many more array elements may be kept."""
        size += ENTRY
        if size > ELEMENTS // 2:
            return False
        self._elements += size
        if self._elements > ELEMENTS:
            for table in self._tables:
                table.clear()
            self._elements = size
        return True


class Keys:
    """Numbers for the values that parts of one instruction's address phase depend on."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self._needs: list[Needs] = []
        self._known: list[dict[tuple[object, ...], int]] = []
        self._take: list[Callable[[tuple[int, ...]], object]] = []
        self._numbers, self._sites = itertools.count(), itertools.count()

    def number(self, needs: Needs) -> int:
        """The frame key for these needs."""
        if needs not in self._needs:
            self._needs.append(needs)
            self._known.append({})
            self._take.append(_taking(needs.fields))
        return self._needs.index(needs)

    def start(self) -> list[int | None]:
        """The keys of a new frame, none known yet."""
        return [None] * len(self._needs)

    def key(self, number: int, session: ProgramSession, stream: int, fields: tuple[int, ...]) -> int:
        """Equal for instructions for which everything needed is equal."""
        known, memories, version = self._known[number], self._needs[number].memories, session.versions.number
        values = (stream, self._take[number](fields), *map(version, memories)) if memories else (stream, self._take[number](fields))
        found = known.get(values)
        if found is None:
            if len(known) > KEYS:
                known.clear()
            found = known[values] = next(self._numbers)
        return found

    def remember(self, needs: Needs, compute: Callable[[Frame], Value], size: Callable[[Value], int] = np.size) -> Callable[[Frame], Value]:
        """The function, not computed again while its inputs are as they were. size: array elements that keeping a result takes."""
        recall, site = self._recalled(self.number(needs), compute, size), next(self._sites)

        def remembered(f: Frame) -> Value:
            memo = f.memo
            if memo is None:
                return recall(f)
            found = memo.get(site, MISSING)
            if found is MISSING:
                found = memo[site] = recall(f)
            return found

        return remembered

    def _recalled(self, number: int, compute: Callable[[Frame], Value], size: Callable[[Value], int]) -> Callable[[Frame], Value]:
        known, kept, key_of = self.kept.table(), self.kept, self.key

        def recall(f: Frame) -> Value:
            keys = f.keys
            if keys is None:
                return compute(f)
            key = keys[number]
            if key is None:
                key = keys[number] = key_of(number, f.session, f.stream, f.fields)
            found = known.get(key, MISSING)
            if found is MISSING:
                found = compute(f)
                if kept.room(size(found)):
                    known[key] = found
            return found

        return recall


Address = Callable[[Frame], Value]
"""Positions counted in steps (storage.step_of). Where an iteration takes no part the position is any legal one."""


class Addresses:
    """scalar: turns a scalar expression into a function."""

    def __init__(self, machine: Machine, scalar: Callable[[Expr], Run]) -> None:
        self.machine, self.scalar = machine, scalar

    def find(self, access: ir.Access) -> Address:
        """The function that finds an access's element. It raises UserError E0701 outside the memory."""
        memory = self.machine.memory[access.view.memory]
        step = step_of(memory, access.view)
        inside = self._inside(memory, access.view, access.index, step)
        if self.machine.instances(memory.scope) == 1:
            return inside
        where, size = self.instance(memory.scope, access.at), memory.bytes // step
        return lambda f: inside(f) + where(f) * size

    def _inside(self, memory: Memory, view: View, index: tuple[Expr, ...], step: int) -> Address:
        unit = (view.unit or memory.element.bytes) // step
        if len(index) == 1:
            return self._one_bank(memory, view, self.scalar(index[0]), unit, memory.depths[0] * memory.element.bytes // step, step)
        return self._banked(memory, view, self.scalar(index[0]), self.scalar(index[1]), unit, step)

    def _one_bank(self, memory: Memory, view: View, index: Run, unit: int, size: int, step: int) -> Address:
        if memory.kind == "ring":
            return (lambda f: index(f) % size) if unit == 1 else (lambda f: index(f) * unit % size)
        last = size - view.element.bytes // step

        def find(f: Frame) -> Value:
            at = index(f)
            if unit != 1:
                at = at * unit
            if is_int(at):
                if not 0 <= at <= last:
                    raise outside(f, memory, view, at // unit)
                return at
            if at.min() < 0 or at.max() > last:
                return _redirect(f, memory, view, at, (at < 0) | (at > last), unit)
            return at

        return find

    def _banked(self, memory: Memory, view: View, bank: Run, address: Run, unit: int, step: int) -> Address:
        element = memory.element.bytes // step
        starts = np.cumsum([0, *memory.depths[:-1]]) * element
        sizes = np.array(memory.depths) * element
        last = sizes - view.element.bytes // step
        ring = memory.kind == "ring"
        plain_starts, plain_sizes = starts.tolist(), sizes.tolist()

        def find(f: Frame) -> Value:
            number, at = bank(f), address(f) * unit
            if is_int(number) and is_int(at):
                if not 0 <= number < memory.banks or not (ring or 0 <= at <= last.item(number)):
                    raise outside(f, memory, view, number, at // unit)
                return plain_starts[number] + (at % plain_sizes[number] if ring else at)
            number = _legal_bank(f, memory, view, number)
            start, size = (plain_starts[number], plain_sizes[number]) if is_int(number) else (starts[number], sizes[number])
            if ring:
                return start + at % size
            wrong = (at < 0) | (at > last[number])
            if wrong.any():
                at = _redirect(f, memory, view, at, wrong, unit)
            return start + at

        return find

    def instance(self, scope: str, at: tuple[tuple[str, Expr], ...]) -> Run:
        """The number of the instance of a scope, at the executing place but for the levels in `at`."""
        levels = scope_levels(self.machine, scope)
        elsewhere = {level: self._elsewhere(level, expr) for level, expr in at}

        def number(f: Frame) -> Value:
            found: Value = 0
            for level in levels:
                found = found * level.count + (elsewhere[level.name](f) if level.name in elsewhere else f.places[level.name])
            return found

        return number

    def _elsewhere(self, level: str, expr: Expr) -> Run:
        count, value = next(x.count for x in self.machine.levels if x.name == level), self.scalar(expr)

        return lambda f: in_range(f, value(f), count, lambda wrong: f.fault("E0701", f"there is no {level} {wrong}: there are {count}"))


def outside(f: Frame, memory: Memory, view: View, *index: int) -> Exception:
    """The error for an index that leads out of the memory."""
    shown = f"{view.name}[{', '.join(map(str, index))}]"
    if len(index) == 2 and not 0 <= index[0] < memory.banks:
        return f.fault("E0701", f"{shown} is outside '{memory.name}', which has {memory.banks} banks")
    size = memory.depths[index[0] if len(index) == 2 else 0] * memory.element.bytes
    return f.fault("E0701", f"{shown} is outside '{memory.name}', which holds {size} bytes{' a bank' if memory.banks > 1 else ''}")


def _redirect(f: Frame, memory: Memory, view: View, at: Value, wrong: Value, unit: int) -> Value:
    """Positions outside become 0 where no iteration takes part. Raises E0701 for one that does."""
    bad = wrong if f.mask is None else wrong & f.mask
    if bad.any():
        raise outside(f, memory, view, int(np.broadcast_to(at, bad.shape)[bad][0]) // unit)
    return np.where(wrong, 0, at)


def _legal_bank(f: Frame, memory: Memory, view: View, number: Value) -> Value:
    return in_range(f, number, memory.banks, lambda wrong: outside(f, memory, view, wrong, 0))


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
                    raise f.fault("E0702", f"{name}[{at}] is read before any {' or '.join(memory.latches)} has set it")
                return state.latched[name].item(here, at, number)
            return self._read_many(f, memory, state.host[name] if memory.host else state.latched[name][:, :, number], here, at)

        return read

    def _latched_field(self, memory: Memory, name: str) -> int:
        return [f.name for f in self.machine.latched(memory)].index(name)

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
                raise f.fault(
                    "E0702",
                    f"{memory.name}[{int(np.broadcast_to(at, bad.shape)[bad][0])}] is read before any {' or '.join(memory.latches)} has set it",
                )
        return uniform(values[here, at])


def register_fault(f: Frame, memory: Memory, at: int) -> Exception:
    """The error for a register number that there is not."""
    return f.fault("E0701", f"{memory.name}[{at}] is outside '{memory.name}', which holds {memory.depths[0]}")


def _bits(part: RecordField) -> Callable[[Value], Value]:
    lsb, mask, low = part.lsb, (1 << part.type.bits) - 1, part.type.low
    if not part.type.signed:
        return lambda word: (word >> lsb) & mask
    return lambda word: (((word >> lsb) - low) & mask) + low
