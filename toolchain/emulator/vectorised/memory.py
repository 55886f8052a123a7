"""Remembers what an instruction's address phase gave, for the next instruction of the same kind.

A part of the address phase depends on some fields, and perhaps on registers and control memories: while those are
equal it gives the same again. Programs repeat themselves tile after tile.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from toolchain.emulator.vectorised.dependencies import Needs
from toolchain.emulator.vectorised.frame import Frame

ELEMENTS = 1 << 20
"""Array elements that one place in the text keeps at most: 8 MB."""

KEYS = 4096
"""So many different values of what is needed are told apart at once."""


def _taking(fields: tuple[int, ...]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """The function that picks these fields."""
    return lambda values: tuple(map(values.__getitem__, fields))


class Keys:
    """Numbers for the values that parts of one instruction's address phase depend on."""

    def __init__(self) -> None:
        self._needs: list[Needs] = []
        self._known: list[dict[tuple[int, Any], int]] = []
        self._take: list[Callable[[tuple[int, ...]], tuple[int, ...]]] = []
        self._next = 0

    def number(self, needs: Needs) -> int:
        """Which key of a frame belongs to these needs."""
        if needs not in self._needs:
            self._needs.append(needs)
            self._known.append({})
            take = _taking(needs.fields)
            self._take.append(take)
        return self._needs.index(needs)

    def start(self) -> list[int | None]:
        """The keys of a new frame, none known yet."""
        return [None] * len(self._needs)

    def key(self, number: int, f: Frame) -> int:
        """Equal for frames in which everything needed is equal."""
        fields, known = f.fields, self._known[number]
        values = (f.stream, self._take[number](fields))
        found = known.get(values)
        if found is None:
            if len(known) > KEYS:
                known.clear()
            found = known[values] = self._next
            self._next += 1
        return found

    def forget(self) -> None:
        """A register or control memory has changed."""
        for needs, known in zip(self._needs, self._known, strict=True):
            if needs.changing:
                known.clear()

    def remember(self, needs: Needs, compute: Callable[[Frame], Any], size: Callable[[Any], int] = np.size) -> Callable[[Frame], Any]:
        """The function, not computed again while what it needs is as it was. size: array elements that keeping a result takes."""
        known: dict[int, Any] = {}
        kept, number, key_of = 0, self.number(needs), self.key

        def recall(f: Frame) -> Any:
            nonlocal kept
            keys = f.keys
            if keys is None:
                return compute(f)
            key = keys[number]
            if key is None:
                key = keys[number] = key_of(number, f)
            elif key in known:
                return known[key]
            if key in known:
                return known[key]
            found = compute(f)
            kept += size(found)
            if kept > ELEMENTS:
                known.clear()
                kept = size(found)
            if kept <= ELEMENTS:
                known[key] = found
            return found

        return recall
