"""Content-addressed constants of control memories: their bytes, and where on chip each one is when a step needs it."""

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.schedule.kernels.kernel import Constant
from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.errors import Span, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Machine, Memory
from toolchain.spec.model.types import ElementType


def constant_bytes(machine: Machine, item: Constant, names: Mapping[str, int]) -> bytes:
    """The records of a constant. Raises UserError E1006 for a value that its field does not hold, E1004 for more records than its memory holds."""
    memory = machine.memory[item.memory]
    element, counts = memory.element, [constant(e, names) for e in item.over.values()]
    _check_counts(item, counts, memory)
    grid: list[Ints] = [part.ravel() for part in np.indices(counts, dtype=np.int64)] if counts else []
    loops = dict(zip(item.over, grid, strict=True))
    length = math.prod(counts)
    arrays = {name: np.full(length, value, np.int64) for name, value in names.items()} | loops
    columns = {part.name: evaluate_arrays(item.fields[part.name], arrays) for part in element.record if part.name in item.fields}
    return pack_records(element, columns, length, f"constant '{item.name}'", {name: expr.span for name, expr in item.fields.items()})


def _check_counts(item: Constant, counts: Sequence[int], memory: Memory) -> None:
    depth, total = memory.elements, math.prod(counts)
    for (name, expr), count in zip(item.over.items(), counts, strict=True):
        if not 0 <= count <= depth:
            raise fail("E1004", f"constant '{item.name}' counts '{name}' to {count}, and '{memory.name}' holds {depth}", expr.span)
    if total > depth:
        raise fail("E1004", f"constant '{item.name}' has {total} records, and '{memory.name}' holds {depth}")


def constant_length(item: Constant, names: Mapping[str, Ints]) -> Ints:
    """int64 [n]: how many records a constant has, for many tiles at once."""
    total = np.ones_like(next(iter(names.values())))
    for count in item.over.values():
        total = total * evaluate_arrays(count, names)
    return total


def pack_records(element: ElementType, columns: Mapping[str, Ints], count: int, what: str, spans: Mapping[str, Span | None] | None = None) -> bytes:
    """`count` records whose fields are int64 [count] by name, 0 where they are not given.

    what, spans: the name that messages give them, and the place where each field is written. Raises UserError E1006 for a value that its field does
    not hold.
    """
    words = np.zeros(count, np.uint64)
    for part in element.record:
        values = columns.get(part.name, np.zeros(count, np.int64))
        wrong = np.flatnonzero((values < part.type.low) | (values > part.type.high))
        if len(wrong):
            raise fail("E1006", f"{what} puts {values[wrong[0]]} into '{part.name}', which holds {part.type}", (spans or {}).get(part.name))
        words |= (values.astype(np.uint64) & np.uint64((1 << part.type.bits) - 1)) << np.uint64(part.lsb)
    return words.astype(f"<u{element.bytes}").tobytes()


@dataclass(frozen=True)
class Fetch:
    """Elements to bring on chip: from `offset` in the pool to `slot`."""

    slot: int
    offset: int
    count: int


@dataclass(frozen=True)
class Residency:
    """pool: the bytes in DRAM, each content once. fetches: before each step. places: where the contents of each step's constants start."""

    pool: bytes
    fetches: tuple[tuple[Fetch, ...], ...]
    places: tuple[tuple[int, ...], ...]


@dataclass
class ControlBuffer:
    """A control memory of `depth` elements: the contents with their places; the least recently used one goes first. taken: the same, by address."""

    depth: int
    held: dict[bytes, tuple[int, int]] = field(default_factory=dict[bytes, tuple[int, int]])
    taken: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def place(self, content: bytes) -> int:
        """The first element of a content that is there. Raises KeyError for another."""
        return self.held[content][0]

    def need(self, step: Sequence[bytes], element: int) -> list[tuple[bytes, int]]:
        """Makes all contents of a step be there at once: (content, place) of those to fetch.

        element: bytes of one. Raises UserError E1004 where they do not fit.
        """
        missing = self.bring(step, element)
        if missing is None:
            self.clear()  # what the step shares with earlier ones stands where the rest finds no gap
            missing = self.bring(step, element)
        if missing is None:
            self.clear()
            raise fail("E1004", f"the {sum(map(len, step)) // element} records that one step names do not fit into {self.depth}")
        return missing

    def clear(self) -> None:
        """Forgets everything."""
        self.held.clear()
        self.taken.clear()

    def touch(self, content: bytes) -> int | None:
        """The place of a content, which counts as used now."""
        if content not in self.held:
            return None
        self.held[content] = self.held.pop(content)
        return self.held[content][0]

    def bring(self, step: Sequence[bytes], element: int) -> list[tuple[bytes, int]] | None:
        """(content, place) of those that were not there; None where a place cannot be found."""
        missing: list[tuple[bytes, int]] = []
        for content in step:
            if self.touch(content) is None:
                slot = self.take(content, len(content) // element, step)
                if slot is None:
                    return None
                missing.append((content, slot))
        return missing

    def take(self, content: bytes, count: int, keep: Sequence[bytes]) -> int | None:
        """A place for a content, others than `keep` given up for it; None where there is none."""
        while True:
            place = self.gap(count)
            if place is not None:
                self.held[content] = (place, count)
                insort(self.taken, (place, count))
                return place
            oldest = next((c for c in self.held if c not in keep), None)
            if oldest is None:
                return None
            self.taken.remove(self.held.pop(oldest))

    def gap(self, count: int) -> int | None:
        """The lowest address with room."""
        at = 0
        for start, size in self.taken:
            if start - at >= count:
                return at
            at = start + size
        return at if self.depth - at >= count else None


def plan_residency(uses: Sequence[Sequence[bytes]], element: int, depth: int) -> Residency:
    """Plan the fetches before each step, whose constants are `uses`; all at once, before the first, where everything fits.

    element: bytes of one. depth: elements of the memory. Raises UserError E1004 where one step's constants do not fit.
    """
    offsets: dict[bytes, int] = {}
    top = 0
    for content in (c for step in uses for c in step):
        if content not in offsets:
            offsets[content] = top
            top += len(content) // element
    pool = b"".join(offsets)
    if top <= depth:
        first = next((i for i, step in enumerate(uses) if step), 0)
        fetches = tuple((Fetch(0, 0, top),) if i == first and top else () for i in range(len(uses)))
        return Residency(pool, fetches, tuple(tuple(offsets[c] for c in step) for step in uses))
    buffer, wanted, places = ControlBuffer(depth), list[tuple[Fetch, ...]](), list[tuple[int, ...]]()
    for step in uses:
        missing = buffer.need(step, element)
        wanted.append(tuple(Fetch(slot, offsets[content], len(content) // element) for content, slot in missing if content))
        places.append(tuple(map(buffer.place, step)))
    return Residency(pool, tuple(wanted), tuple(places))
