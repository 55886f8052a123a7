"""How many streams each operation is dealt to, by exact time: streams that share the work also have to meet, and to share ports."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.program import CompiledRegion
from toolchain.timing.event_run import Times

Counts = tuple[int, ...]
"""By operation, how many streams run its tiles: the first ones."""
GAIN = 0.99
"""The part of the time so far that a mixture must promise to be timed."""
MIXED = 2
"""Mixtures that are timed for each number of streams, at most: each costs as much as compiling the region."""


@dataclass(frozen=True)
class Trial:
    """A schedule that was timed. spent: float64 [operations], the cycles by which each operation moves the end of the work before it."""

    schedule: Schedule
    cycles: float
    spent: Times


def quickest_dealing(operations: int, streams: int, tried: Callable[[Counts], Trial]) -> Trial:
    """The quickest of the trials: every operation on 1, 2, 4 ... streams, and mixtures, each operation on as many as it was quickest on.

    No number of streams is slower than one, and twice as many are never slower: the trials of the smaller number come first, in the same order.
    """
    search = _Search(tried, np.full((operations, streams + 1), np.inf))
    for count in _powers(streams):
        search.look((count,) * operations)
        for _ in range(MIXED):
            if not search.mix():
                break
    assert search.best is not None
    return search.best


@dataclass
class _Search:
    """seen: float64 [operations, streams + 1], the time that each operation took when it was last dealt to so many."""

    tried: Callable[[Counts], Trial]
    seen: Times
    best: Trial | None = None

    def __post_init__(self) -> None:
        self.known = set[Counts]()

    def look(self, counts: Counts) -> None:
        """Times these counts."""
        trial = self.tried(counts)
        self.known.add(counts)
        self.seen[np.arange(len(counts)), counts] = trial.spent
        if self.best is None or trial.cycles < self.best.cycles:
            self.best = trial

    def mix(self) -> bool:
        """Times the counts on which operations were quickest; False where these are known, or promise too little."""
        counts: Counts = tuple(self.seen.argmin(axis=1).tolist())
        promised = float(self.seen.min(axis=1).sum())
        if counts in self.known or self.best is None or promised > GAIN * self.best.cycles:
            return False
        self.look(counts)
        return True


def _powers(streams: int) -> Iterator[int]:
    """1, 2, 4 ... and all of them."""
    yield from takewhile(lambda count: count < streams, (1 << k for k in range(streams.bit_length())))
    yield streams


def spent(compiled: CompiledRegion) -> Times:
    """float64 [operations]: by how much each one, in the order in which they run, moves the end of the work so far."""
    order = [operation.operation for _, operation in compiled.schedule.entries()]
    owned = compiled.origins.operation >= 0
    ends = np.zeros(len(order))
    np.maximum.at(ends, compiled.origins.operation[owned], compiled.timeline.result.end[owned])
    found = np.zeros(len(order))
    found[order] = np.diff(np.maximum.accumulate(ends[order]), prepend=0.0)
    return found
