"""Iterations that run together as if one after the other: writes wait, and stand only if no iteration needed another's.

Every access of a memory that the instruction also writes is noted with the iterations it belongs to. A read conflicts
when an iteration before it wrote the same element, two writes when the later statement's come first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = Any
Ints = NDArray[np.int64]

FEW = 96
"""More notes than these are not compared pair by pair: fewer iterations are tried."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the text. order: its rank, reads of a statement before its write. path: the loops around it.
    turns: an element may go on at the other end of a ring: positions do not tell its bytes."""

    order: int
    path: tuple[str, ...]
    memory: str
    bytes: int
    step: int
    turns: bool


@dataclass(frozen=True, slots=True)
class Note:
    """Positions that a site touched. times[d]: when, counted over the outer d loops. mask: None is all. kind: read, write or add."""

    site: Site
    kind: str
    at: Value
    times: tuple[Value, ...]
    mask: Value


class Transaction:
    """Notes and waiting writes of one attempt. loops: how many axes positions and times have. watching: whether notes are wanted."""

    def __init__(self, loops: int, watching: bool = True) -> None:
        self.loops, self.watching = loops, watching
        self.notes: list[Note] = []
        self.waiting: list[Callable[[], None]] = []

    def note(self, site: Site, kind: str, at: Value, times: list[Value], mask: Value) -> None:
        """Positions that a site touched."""
        if self.watching:
            self.notes.append(Note(site, kind, at, tuple(times), mask))

    def commit(self) -> None:
        """Performs the waiting writes, in text order."""
        for write in self.waiting:
            write()

    def conflicts(self) -> bool:
        """Whether the result may differ from running the iterations one after the other."""
        if len(self.notes) > FEW:
            return any(n.kind != "read" for n in self.notes)
        for position, note in enumerate(self.notes):
            for other in self.notes[position + 1 :]:
                if note.site.memory == other.site.memory and self._clash(note, other):
                    return True
        return False

    def _clash(self, a: Note, b: Note) -> bool:
        if a.kind == b.kind and a.kind in ("read", "add"):
            return False
        if a.site.turns or b.site.turns:
            return True
        low, high = (max(_lowest(n) for n in (a, b)), min(_highest(n) for n in (a, b)))
        if low >= high:
            return False
        if "add" in (a.kind, b.kind) and "read" not in (a.kind, b.kind):
            return True
        if a.site.path == b.site.path and a.site.order != b.site.order and _same_element(a, b):
            return False
        if not self._meet(a, b):
            return False
        shared = _common(a.site.path, b.site.path)
        if "read" in (a.kind, b.kind):
            read, write = (a, b) if a.kind == "read" else (b, a)
            return self._read_after_write(read, write, shared)
        first, second = (a, b) if a.site.order <= b.site.order else (b, a)
        return self._overwritten(first, second, shared)

    def _meet(self, a: Note, b: Note) -> bool:
        """Whether two notes touch the same bytes at all, at whatever time; most do not, and times are long."""
        unit = _unit(a, b)
        first, second = (self._expand(np.asarray(n.at).reshape(-1) * n.site.step, n.site.bytes, unit) for n in (a, b))
        base = int(first.min())
        touched = np.zeros(int(first.max()) - base + 1, np.bool_)
        touched[first - base] = True
        near = second[(second >= base) & (second < base + len(touched))] - base
        return bool(touched[near].any())

    def _read_after_write(self, read: Note, write: Note, depth: int) -> bool:
        unit = _unit(read, write)
        w_at, w_when = self._flat(write, unit, depth, last=False)
        r_at, r_when = self._flat(read, unit, depth, last=True)
        base, first = int(w_at.min()), np.full(int(w_at.max() - w_at.min()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, w_at - base, w_when)
        inside = (r_at >= base) & (r_at < base + len(first))
        wrote, when = first[r_at[inside] - base], r_when[inside]
        return bool((wrote <= when if write.site.order < read.site.order else wrote < when).any())

    def _overwritten(self, first: Note, second: Note, depth: int) -> bool:
        unit = _unit(first, second)
        ends: list[Ints] = []
        low = min(_lowest(first), _lowest(second)) // unit
        size = max(_highest(first), _highest(second)) // unit - low
        for note in (first, second):
            at, when = self._flat(note, unit, depth, last=True)
            latest = np.full(size, -1)
            np.maximum.at(latest, at - low, when)
            ends.append(latest)
        return bool(((ends[1] >= 0) & (ends[0] > ends[1])).any())

    def _flat(self, note: Note, unit: int, depth: int, last: bool) -> tuple[Ints, Ints]:
        """The units a note touches, each with its last or first time over the loops it does not depend on."""
        at, when = np.asarray(note.at), np.asarray(note.times[depth])
        at, when = (x.reshape((1,) * (self.loops - x.ndim) + x.shape) for x in (at, when))
        for axis in range(self.loops):
            if at.shape[axis] == 1 and when.shape[axis] > 1:
                when = when.take([-1 if last else 0], axis=axis)
        shape = np.broadcast_shapes(at.shape, when.shape)
        at, when = np.broadcast_to(at, shape), np.broadcast_to(when, shape)
        if note.mask is not None and np.broadcast_shapes(shape, note.mask.shape) == shape:
            chosen = np.broadcast_to(note.mask, shape)
            at, when = at[chosen], when[chosen]
        return self._expand(at.reshape(-1) * note.site.step, note.site.bytes, unit), np.repeat(when.reshape(-1), note.site.bytes // unit)

    def _expand(self, starts: Ints, size: int, unit: int) -> Ints:
        units = starts // unit
        return units if size == unit else (units[:, None] + np.arange(size // unit)).reshape(-1)


def _same_element(a: Note, b: Note) -> bool:
    """Whether every iteration touches one element of its own, the same at both sites, read first where one is read."""
    if a.mask is not b.mask or np.shape(a.at) != np.shape(b.at) or a.site.step != b.site.step:
        return False
    if "read" in (a.kind, b.kind) and (a if a.kind == "read" else b).site.order > (b if a.kind == "read" else a).site.order:
        return False
    at, when = np.asarray(a.at), np.asarray(a.times[len(a.site.path)])
    if np.broadcast_shapes(at.shape, when.shape) != at.shape or not (at == b.at).all():
        return False
    flat = at.reshape(-1)
    return bool((flat[1:] - flat[:-1] >= -(-a.site.bytes // a.site.step)).all())


def _unit(a: Note, b: Note) -> int:
    """A size that divides both elements and every position of either."""
    unit = int(np.gcd(np.gcd(a.site.bytes, b.site.bytes), np.gcd(a.site.step, b.site.step)))
    if unit > 1 or min(a.site.bytes, b.site.bytes) == 1:
        return unit
    whole = int(np.gcd(a.site.bytes, b.site.bytes))
    aligned = all(not (np.asarray(n.at) * n.site.step % whole).any() for n in (a, b))
    return whole if aligned else 1


def _lowest(note: Note) -> int:
    return int(np.min(note.at)) * note.site.step


def _highest(note: Note) -> int:
    return int(np.max(note.at)) * note.site.step + note.site.bytes


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """How many outer loops two sites share."""
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] == b[depth]:
        depth += 1
    return depth
