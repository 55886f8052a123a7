"""Loops as array axes, branches as masks."""

from collections.abc import Callable

import numpy as np

from toolchain.emulator.vectorised.frame import ITERATIONS, Axes, Frame, Run, TooLarge, Value
from toolchain.emulator.vectorised.numerics import is_int, uniform
from toolchain.emulator.vectorised.transaction import Transaction
from toolchain.spec.errors import UserError

Action = Callable[[Frame], None]


def sequence(actions: list[Action]) -> Action:
    """One after the other."""
    if len(actions) == 1:
        return actions[0]

    def run_all(f: Frame) -> None:
        for action in actions:
            action(f)

    return run_all


def branch(test: Run, then: Action | None, other: Action | None) -> Action:
    """A condition that differs between iterations runs both sides, each for those that take it."""

    def run_branch(f: Frame) -> None:
        found = test(f)
        if not isinstance(found, np.ndarray):
            side = then if found else other
            if side:
                side(f)
            return
        before = f.mask
        for side, taken in ((then, found), (other, ~found)):
            if side and (mask := f.taking_part(taken)).any():
                f.mask = None if before is None and bool(mask.all()) else mask
                side(f)
        f.mask = before

    return run_branch


class Loop:
    """depth: how many loops enclose it. serial: its iterations hand values on, other than through memory."""

    def __init__(self, axes: Axes, slot: int, depth: int, serial: bool, start: Run, stop: Run, body: Action) -> None:
        self.axes, self.slot, self.depth, self.serial = axes, slot, depth, serial
        self.start, self.stop, self.body = start, stop, body
        self.axis = axes.first + depth

    def __call__(self, f: Frame) -> None:
        start, stop = uniform(self.start(f)), uniform(self.stop(f))
        if not is_int(start) or not is_int(stop):
            self._ragged(f, start, stop)
        elif stop - start == 1:
            self._once(f, start, 0, 1)
        elif stop > start:
            if self.serial:
                for number in range(start, stop):
                    self._once(f, number, number - start, stop - start)
            elif f.transaction is None:
                self._attempt(f, start, stop)
            else:
                self._together(f, start, stop)

    def _once(self, f: Frame, number: Value, position: int, count: int) -> None:
        f.names[self.slot] = number
        if f.transaction is not None:
            f.times[self.depth + 1] = f.times[self.depth] * count + position
        self.body(f)

    def _ragged(self, f: Frame, start: Value, stop: Value) -> None:
        """Loops of different lengths side by side: the longest, with a mask."""
        trips = stop - start
        if f.mask is not None:
            trips = np.where(f.mask, trips, 0)
        count, before = int(trips.max()), f.mask
        if count > 0 and self.serial:
            for position in range(count):
                f.mask = f.taking_part(trips > position)
                self._once(f, start + position, position, count)
                f.mask = before
        elif count > 0:
            steps = np.arange(count).reshape(self.axes.loop_shape(self.axis, count))
            f.mask = f.taking_part(trips > steps)
            self._axis(f, start + steps, steps, count)
            f.mask = before

    def _together(self, f: Frame, start: int, stop: int) -> None:
        steps = np.arange(stop - start).reshape(self.axes.loop_shape(self.axis, stop - start))
        self._axis(f, start + steps, steps, stop - start)

    def _axis(self, f: Frame, numbers: Value, steps: Value, count: int) -> None:
        f.names[self.slot] = numbers
        f.times[self.depth + 1] = f.times[self.depth] * count + steps
        f.extents[self.axis] = count
        try:
            if _volume(f) > ITERATIONS:
                raise TooLarge
            self.body(f)
        finally:
            f.extents[self.axis] = 1

    def _attempt(self, f: Frame, start: int, stop: int) -> None:
        """All at once; where that would differ from one after the other, or be too much, each half on its own."""
        if stop - start == 1:
            self._once(f, start, 0, 1)
            return
        names, temps = f.names.copy(), f.temps.copy()
        mask, lazy = f.mask, f.lazy
        transaction = f.transaction = Transaction(self.axes.loops)
        f.times = [0] * len(f.times)
        try:
            self._together(f, start, stop)
            done = not transaction.conflicts()
        except (TooLarge, UserError):
            done = False
        f.transaction = None
        if done:
            transaction.commit()
            return
        f.names, f.temps, f.mask, f.lazy = names, temps, mask, lazy
        f.extents = [1] * len(f.extents)
        for axis, level in enumerate(self.axes.replicas):
            f.extents[axis] = level.count
        half = (start + stop) // 2
        self._attempt(f, start, half)
        self._attempt(f, half, stop)


def _volume(f: Frame) -> int:
    volume = 1
    for extent in f.extents:
        volume *= extent
    return volume
