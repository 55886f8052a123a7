"""On-chip memory over time: rectangles of cycles and addresses, each a tensor's tile from its write to its last read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from toolchain.isa.program import Ints
from toolchain.report.timeline_data import DIGITS, packed, steps
from toolchain.spec.model import Memory
from toolchain.timing.timeline import Times
from toolchain.timing.trace import Lives, lives_of
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


def memory_maps(tested: ProgramUnderTest) -> Iterator[Rectangles]:
    """One for each on-chip memory that the program touches."""
    named = _named(tested)
    for memory, lives in lives_of(tested.timeline):
        yield _merged(memory, lives, tested, named)


class _Named(NamedTuple):
    """names: `operation: step place (tensor)` of each pair of operation and step that an instruction has, empty for none, and one more for data that
    no instruction wrote. operation: of each name, -1 for none. of: the name of each instruction."""

    names: tuple[str, ...]
    operation: Ints
    of: Ints


def _named(tested: ProgramUnderTest) -> _Named:
    origins, count = tested.origins, max(len(tested.origins.steps), 1)
    pair = np.where((origins.operation >= 0) & (origins.step >= 0), origins.operation * count + origins.step, -1)
    found, of = np.unique(pair, return_inverse=True)
    operation = np.append(np.where(found < 0, -1, found // count), -1)
    names = [_name(tested, *divmod(number, count)) if number >= 0 else "" for number in found.tolist()]
    return _Named((*names, "there before the program"), operation, of.astype(np.int64))


def _name(tested: ProgramUnderTest, operation: int, step: int) -> str:
    bound, name = tested.region.operations[operation], tested.origins.steps[step]
    tensor = bound.tensors.get(name.place, "")
    return f"{bound.operation.name}: {name.kind} {name.place}" + (f" ({tensor})" if tensor else "")


def _merged(memory: Memory, lives: Lives, tested: ProgramUnderTest, named: _Named) -> Rectangles:
    """Neighbouring addresses that one step of one operation writes are one rectangle."""
    known = lives.writer >= 0
    name = np.where(known, named.of[lives.writer], len(named.names) - 1)
    instance = np.where(known, tested.origins.instance[lives.writer], -1) + 1
    found = _joined(lives, name, name * (int(instance.max(initial=0)) + 1) + instance)
    if len(found[0]) > MOST:
        found = _joined(lives, name, name)
    begin, stop, low, high, name = found
    return Rectangles(memory.name, lives.capacity, begin, stop, low, high, named.operation[name], name, named.names)


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
    columns = {"low": found.low, "high": found.high, "operation": found.operation, "name": found.name}
    columns = {name: column[order] for name, column in columns.items()}
    columns |= {"step": steps(found.begin[order]), "length": np.round((found.stop - found.begin)[order], DIGITS)}
    return {
        "name": found.memory, "capacity": found.capacity, "names": found.names,
        "columns": {name: packed(column) for name, column in columns.items()},
    }  # fmt: skip
