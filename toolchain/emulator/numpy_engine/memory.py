"""Remembers the results of an instruction's address phase for the next instruction of the same kind.

A part of the address phase depends on some fields, and perhaps on registers and control memories: while those are
equal it gives the same again. Programs repeat themselves tile after tile, and are run more than once.
"""

import itertools
from collections.abc import Callable
from operator import itemgetter
from typing import cast

import numpy as np

from toolchain.emulator.numpy_engine.frame import Frame, ProgramSession, Value
from toolchain.emulator.numpy_engine.structure import Needs

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
