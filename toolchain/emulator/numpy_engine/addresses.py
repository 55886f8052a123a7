"""Addresses of an access: positions in a memory's instances laid end to end, bounds checked."""

from collections.abc import Callable

import numpy as np

from toolchain.emulator.numpy_engine.frame import Frame, Run, Value
from toolchain.emulator.numpy_engine.numerics import is_int
from toolchain.emulator.numpy_engine.storage import step_of
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import scope_levels
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine, Memory, View

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

        def find(f: Frame) -> Value:
            number = value(f)
            wrong = np.asarray((number < 0) | (number >= count))
            if not wrong.any():
                return number
            bad = wrong if f.mask is None else wrong & f.mask
            if bad.any():
                shown = int(np.broadcast_to(number, bad.shape)[bad][0])
                raise f.fault("E0701", f"there is no {level} {shown}: there are {count}")
            return 0 if is_int(number) else np.where(wrong, 0, number)

        return find


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
    wrong = np.asarray((number < 0) | (number >= memory.banks))
    if not wrong.any():
        return number
    bad = wrong if f.mask is None else wrong & f.mask
    if bad.any():
        raise outside(f, memory, view, int(np.broadcast_to(number, bad.shape)[bad][0]), 0)
    return 0 if is_int(number) else np.where(wrong, 0, number)
