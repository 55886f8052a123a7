"""Loops as array axes, branches as masks."""

from collections.abc import Callable

import numpy as np

from toolchain.emulator.numpy_engine.addresses import Keys
from toolchain.emulator.numpy_engine.expressions import is_array, is_int, uniform
from toolchain.emulator.numpy_engine.frame import ITERATIONS, Axes, Frame, Run, TooLargeError, Value
from toolchain.emulator.numpy_engine.structure import Needs
from toolchain.emulator.numpy_engine.transaction import Transaction
from toolchain.isa.semantics.loops import MOST_ITERATIONS, TOO_MANY, total_iterations
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
        if not is_array(found):
            side = then if found else other
            if side:
                side(f)
            return
        before = f.mask
        for side, taken in ((then, found), (other, ~found)):
            f.mask = before  # the second side's share is of all that came here, not of the first side's
            if side and (mask := f.taking_part(taken)).any():
                f.mask = None if before is None and bool(mask.all()) else mask
                side(f)
        f.mask = before

    return run_branch


class Loop:
    """depth: how many loops enclose it. serial: its iterations hand values on, other than through memory.

    chain: bounds of the loops whose work is counted when this one starts.
    clashes: by key of everything the address phase needs, whether all iterations together differ from one after the other.
    """

    def __init__(
        self,
        axes: Axes,
        keys: Keys,
        everything: Needs,
        slot: int,
        depth: int,
        serial: bool,
        start: Run,
        stop: Run,
        body: Action,
        chain: list[tuple[Run, Run]],
    ) -> None:
        self.axes, self.slot, self.depth, self.serial = axes, slot, depth, serial
        self.start, self.stop, self.body, self.chain = start, stop, body, chain
        self.axis = depth
        self.keys, self.everything = keys, keys.number(everything)
        self.clashes: dict[int, bool] = keys.kept.table()

    def __call__(self, f: Frame) -> None:
        if self.chain:
            self._count_work(f)
        start, stop = self.start(f), self.stop(f)
        start, stop = start if is_int(start) else uniform(start), stop if is_int(stop) else uniform(stop)
        if not is_int(start) or not is_int(stop):
            self._ragged(f, start, stop)
        elif stop - start == 1:
            self._once(f, start, 0, 1)
        elif stop > start:
            if self.serial:
                self._serially(f, start, stop)
            elif f.transaction is None:
                self._attempt(f, start, stop)
            else:
                self._together(f, start, stop)

    def _count_work(self, f: Frame) -> None:
        """Refuses to start loops that would run for ever."""
        trips = [stop(f) - start(f) for start, stop in self.chain]
        counts = [x if is_int(x) else int(x.max()) for x in trips]
        if _volume(f) * total_iterations(counts) > MOST_ITERATIONS:
            raise f.fault("E0706", TOO_MANY)

    def _once(self, f: Frame, number: Value, position: int, count: int) -> None:
        f.names[self.slot] = number
        if f.transaction is not None and f.transaction.watching:
            f.times[self.depth + 1] = f.times[self.depth] * count + position
        self.body(f)

    def _serially(self, f: Frame, start: int, stop: int) -> None:
        keys, f.keys = f.keys, None
        for number in range(start, stop):
            self._once(f, number, number - start, stop - start)
        f.keys = keys

    def _ragged(self, f: Frame, start: Value, stop: Value) -> None:
        """Loops of different lengths side by side: the longest, with a mask; in steps where nothing watches for clashes."""
        trips = stop - start
        if f.mask is not None:
            trips = np.where(f.mask, trips, 0)
        count, before = int(trips.max()), f.mask
        if count > 0 and (self.serial or f.transaction is None):
            keys, f.keys = f.keys, None
            for position in range(count):
                f.mask = f.taking_part(trips > position)
                self._once(f, start + position, position, count)
                f.mask = before
            f.keys = keys
        elif count > 0:
            steps = np.arange(count).reshape(self.axes.loop_shape(self.axis, count))
            f.mask = f.taking_part(trips > steps)
            self._axis(f, start + steps, steps, count)
            f.mask = before

    def _together(self, f: Frame, start: int, stop: int) -> None:
        steps = np.arange(stop - start).reshape(self.axes.loop_shape(self.axis, stop - start))
        self._axis(f, start + steps if start else steps, steps, stop - start)

    def _axis(self, f: Frame, numbers: Value, steps: Value, count: int) -> None:
        f.names[self.slot] = numbers
        if f.transaction is not None and f.transaction.watching:
            f.times[self.depth + 1] = f.times[self.depth] * count + steps
        f.extents[self.axis] = count
        try:
            if _volume(f) > ITERATIONS:
                raise TooLargeError
            self.body(f)
        finally:
            f.extents[self.axis] = 1

    def _attempt(self, f: Frame, start: int, stop: int) -> None:
        """All at once; where that would differ from one after the other, or be too much, each half on its own."""
        if stop - start == 1:
            self._once(f, start, 0, 1)
            return
        before = (f.names.copy(), f.temps.copy(), f.mask, f.lazy)
        if self._succeeds(f, start, stop):
            return
        f.names, f.temps, f.mask, f.lazy = before
        f.keys = f.transaction = None
        f.extents = list(self.axes.extents)
        half = (start + stop) // 2
        self._attempt(f, start, half)
        self._attempt(f, half, stop)

    def _succeeds(self, f: Frame, start: int, stop: int) -> bool:
        """Whether all iterations could run together; if not, nothing was written."""
        key = None if f.keys is None else self.keys.key(self.everything, f.session, f.stream, f.fields)
        known = None if key is None else self.clashes.get(key)
        if known:
            return False
        recorder = f.recorder
        if recorder:
            recorder.begin()
        transaction = f.transaction = Transaction(self.axes.loops, watching=known is None)
        f.times = [0] * len(f.times)
        clash = True
        try:
            self._together(f, start, stop)
            clash = transaction.conflicts()
        except (TooLargeError, UserError):
            return False
        finally:
            f.transaction = None
            if clash and recorder:
                recorder.undo()
        if key is not None and known is None and self.keys.kept.room(1):
            self.clashes[key] = clash
        if not clash:
            transaction.commit()
        return not clash


def _volume(f: Frame) -> int:
    volume = 1
    for extent in f.extents:
        volume *= extent
    return volume
