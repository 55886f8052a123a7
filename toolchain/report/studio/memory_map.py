"""On-chip memory over time: rectangles of cycles and addresses, each a tensor's tile from its write to its last read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.isa.program import Ints
from toolchain.report.timeline_data import DIGITS, packed
from toolchain.spec.model import Memory
from toolchain.timing.lives import Lives, lives_of
from toolchain.timing.simulate import Timeline
from toolchain.timing.timeline import Times
from toolchain.verify.built import ProgramUnderTest

MOST = 40_000
"""Rectangles of a memory; where there are more, those of one operation and place at neighbouring addresses are drawn as one."""


@dataclass(frozen=True)
class Rectangles:
    """begin, stop: cycles, float64 [n]. low, high: bytes, all instances of the memory end to end, int64 [n]. operation: index in the region, -1 for
    none; name: index in `names`; both int64 [n]. capacity: bytes."""

    memory: str
    capacity: int
    begin: Times
    stop: Times
    low: Ints
    high: Ints
    operation: Ints
    name: Ints
    names: tuple[str, ...]


def memory_maps(tested: ProgramUnderTest, timeline: Timeline) -> Iterator[Rectangles]:
    """One for each on-chip memory that the program touches."""
    names, place = _names(tested)
    for memory, life in lives_of(timeline):
        yield _merged(memory, life, tested, names, place)


def _names(tested: ProgramUnderTest) -> tuple[tuple[str, ...], Ints]:
    """`tensor (place of operation)` of each pair of operation and step, and its index for each instruction, -1 for none."""
    origins, operations = tested.origins, tested.region.operations
    pair = np.where((origins.operation >= 0) & (origins.step >= 0), origins.operation * max(len(origins.steps), 1) + origins.step, -1)
    found, place = np.unique(pair, return_inverse=True)
    texts: list[str] = []
    numbers: list[int] = found.tolist()
    for number in numbers:
        operation, step = divmod(number, max(len(origins.steps), 1))
        if number < 0:
            texts.append("")
            continue
        bound, name = operations[operation], origins.steps[step]
        tensor = bound.tensors.get(name.place, "")
        texts.append(f"{bound.operation.name}: {name.kind} {name.place}" + (f" ({tensor})" if tensor else ""))
    return tuple(texts), place.astype(np.int64)


def _merged(memory: Memory, lives: Lives, tested: ProgramUnderTest, names: tuple[str, ...], place: Ints) -> Rectangles:
    """Neighbouring addresses that one step of one operation writes are one rectangle."""
    known = lives.writer >= 0
    name = np.where(known, place[lives.writer], len(names))
    instance = np.where(known, tested.origins.instance[lives.writer], -1) + 1
    found = _joined(lives, name, name * (int(instance.max(initial=0)) + 1) + instance)
    if len(found[0]) > MOST:
        found = _joined(lives, name, name)
    begin, stop, low, high, name = found
    operation = np.array([*(_operation(tested, text, number, place) for number, text in enumerate(names)), -1])
    return Rectangles(memory.name, lives.capacity, begin, stop, low, high, operation[name], name, (*names, "there before the program"))


def _operation(tested: ProgramUnderTest, name: str, number: int, place: Ints) -> int:
    """The operation of all instructions with this name."""
    return int(tested.origins.operation[int(np.argmax(place == number))]) if name else -1


def _joined(lives: Lives, name: Ints, key: Ints) -> tuple[Times, Times, Ints, Ints, Ints]:
    """Rectangles of one key that stand side by side, as one from the first write to the last read."""
    if not len(key):
        return lives.begin, lives.stop, lives.low, lives.high, name
    order = np.lexsort((lives.begin, lives.low, key))
    own, low, high = key[order], lives.low[order], lives.high[order]
    heads = np.flatnonzero(np.append(True, (own[1:] != own[:-1]) | (low[1:] > high[:-1])))
    begin, stop = np.minimum.reduceat(lives.begin[order], heads), np.maximum.reduceat(lives.stop[order], heads)
    return begin, stop, low[heads], np.maximum.reduceat(high, heads), name[order][heads]


def map_data(found: Rectangles) -> dict[str, Any]:
    """As the page's script reads it; sorted by begin."""
    order = np.argsort(found.begin, kind="stable")
    columns = {"begin": np.round(found.begin, DIGITS), "stop": np.round(found.stop, DIGITS)}
    whole = {"low": found.low, "high": found.high, "operation": found.operation, "name": found.name}
    return {
        "name": found.memory, "capacity": found.capacity, "names": found.names,
        "columns": {name: packed(column[order]) for name, column in (columns | whole).items()},
    }  # fmt: skip
