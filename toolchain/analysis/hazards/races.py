"""Races and reads of what nobody wrote: footprints against vector clocks.

For every granule, in the order of execution: each access against the last write before it, and each write against the last
read of every queue since that write. Two accesses that the queues and tokens do not order are a race.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.footprints import Footprints, Runs
from toolchain.isa.program import Ints
from toolchain.spec.arrays import distinct

RAW, WAR, WAW, UNWRITTEN = range(4)
BLOCK = 1 << 22
"""Events that are sorted at a time."""


@dataclass(frozen=True)
class Timeline:
    """order: as executed. position: its inverse. queue, place: where each instruction stands in which queue.

    clock: int [n, queues], how many of each queue are complete before an instruction starts (toolchain/analysis/queues/clocks.py).
    """

    order: Ints
    position: Ints
    queue: Ints
    place: Ints
    clock: NDArray[np.int32]

    def unordered(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """bool: whether `second` may start before `first` is complete."""
        return self.clock[second, self.queue[first]] <= self.place[first]


@dataclass(frozen=True)
class Hazards:
    """One row for each (first, second, kind, memory); start, stop: from the first to the last granule that it concerns.

    kind UNWRITTEN is a read of what nothing wrote before; its `first` is -1. Sorted by place in the order.
    """

    first: Ints
    second: Ints
    kind: Ints
    memory: Ints
    start: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.first)

    def take(self, chosen: NDArray[np.bool_]) -> "Hazards":
        return Hazards(*(getattr(self, name)[chosen] for name in Hazards.__dataclass_fields__))


def find_hazards(prints: Footprints, timeline: Timeline) -> Hazards:
    """Every race and every read of unwritten granules, with numpy."""
    runs = prints.runs
    parts: list[Hazards] = []
    for memory in range(len(prints.program.machine.memories)):
        mine = runs.take(runs.memory == memory)
        parts += [_judge(memory, *events, timeline) for events in event_blocks(mine, timeline)]
    return gather(parts, timeline.position)


def gather(parts: Sequence[Hazards], position: Ints) -> Hazards:
    """All rows in one, sorted, those of the same pair, kind and memory joined."""
    columns = [np.concatenate([np.zeros(0, np.int64), *(getattr(p, n) for p in parts)]) for n in Hazards.__dataclass_fields__]
    if not len(columns[0]):
        return Hazards(*columns)
    first, second, kind, memory, start, stop = columns
    early = np.where(first >= 0, position[first], -1)
    rank = np.lexsort((kind, memory, early, position[second]))
    first, second, kind, memory, start, stop = (c[rank] for c in columns)
    heads = np.flatnonzero(np.any([np.diff(c, prepend=-2) != 0 for c in (first, second, kind, memory)], axis=0))
    return Hazards(first[heads], second[heads], kind[heads], memory[heads], np.minimum.reduceat(start, heads), np.maximum.reduceat(stop, heads))


Events = tuple[Ints, Ints, Ints, NDArray[np.bool_]]
"""start, stop, instruction, write of every (elementary segment, access), sorted by (segment, order, reads first)"""


def event_blocks(runs: Runs, timeline: Timeline) -> Iterator[Events]:
    """The accesses to one memory, cut at every boundary of a run, about BLOCK events at a time."""
    edges = distinct(np.concatenate([runs.start, runs.stop]))
    low, high = np.searchsorted(edges, runs.start), np.searchsorted(edges, runs.stop)
    if not len(edges):
        return
    depth = np.cumsum(np.bincount(low, minlength=len(edges)) - np.bincount(high, minlength=len(edges)))
    total = np.cumsum(depth)
    first = 0
    while first < len(edges) - 1:
        last = max(int(np.searchsorted(total, (total[first - 1] if first else 0) + BLOCK, "right")), first + 1)
        chosen = np.flatnonzero((low < last) & (high > first)) if last < len(edges) - 1 or first else np.arange(len(runs))
        begin, counts = np.maximum(low[chosen], first), np.minimum(high[chosen], last) - np.maximum(low[chosen], first)
        row = np.repeat(chosen, counts)
        segment = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
        instruction, write = runs.instruction[row], runs.write[row]
        rank = np.argsort((segment * len(timeline.position) + timeline.position[instruction]) * 2 + write, kind="stable")
        segment = segment[rank]
        yield edges[segment], edges[segment + 1], instruction[rank], write[rank]
        first = last


def _judge(memory: int, start: Ints, stop: Ints, instruction: Ints, write: NDArray[np.bool_], timeline: Timeline) -> Hazards:
    count = len(start)
    number = np.arange(count)
    opens = np.maximum.accumulate(np.where(np.diff(start, prepend=-1) != 0, number, 0))
    last = np.concatenate([[-1], np.maximum.accumulate(np.where(write, number, -1))[:-1]])
    written = last >= opens
    closes = np.minimum.accumulate(np.where(np.diff(start, append=-1) != 0, number, count)[::-1])[::-1]
    following = np.minimum.accumulate(np.where(write, number, count)[::-1])[::-1]
    readers = np.flatnonzero(~write & (following <= closes))
    readers = readers[instruction[readers] != instruction[following[readers]]]

    def rows(kind: int, first: Ints, second: Ints) -> Hazards:
        chosen = timeline.unordered(instruction[first], instruction[second])
        if kind == WAR:
            chosen &= _latest(first, second, timeline.queue[instruction], chosen)
        a, b = first[chosen], second[chosen]
        return Hazards(instruction[a], instruction[b], np.full(len(a), kind), np.full(len(a), memory), start[b], stop[b])

    bare = np.flatnonzero(~write & ~written)
    unwritten = Hazards(np.full(len(bare), -1), instruction[bare], np.full(len(bare), UNWRITTEN), np.full(len(bare), memory), start[bare], stop[bare])
    late = np.flatnonzero(written)
    reads, writes = late[~write[late]], late[write[late]]
    return gather(
        [unwritten, rows(RAW, last[reads], reads), rows(WAW, last[writes], writes), rows(WAR, readers, following[readers])], timeline.position
    )


def _latest(first: Ints, second: Ints, queue: Ints, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The last read of each queue among the chosen (read, write) pairs of each write."""
    kept = np.zeros(len(first), np.bool_)
    some = np.flatnonzero(chosen)
    rank = some[np.lexsort((first[some], queue[first[some]], second[some]))]
    final = np.append((np.diff(second[rank]) != 0) | (np.diff(queue[first[rank]]) != 0), True) if len(rank) else np.zeros(0, np.bool_)
    kept[rank[final]] = True
    return kept
