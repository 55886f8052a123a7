"""The handover of a tensor through an operation between two others: how long the last one waits after the first one's end, and tiles with which
it waits less."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from toolchain.schedule.form.shares import tile_count
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.order import loops_of
from toolchain.schedule.tiling.tile_group import Reach
from toolchain.schedule.tiling.tile_table import tile_key
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.arrays import Ints, Reals
from toolchain.spec.evaluate import constant

WORTH = 0.005
"""The share of the maker's cycles by which the next operation must start earlier for others than the given tiles."""
NEAR = 1 / 8
"""Fewer tiles are taken where they lose no more than this share of the cycles that can be gained."""
CUTS = range(1, 9)
"""Tiles of the operation between are cut into so many, or come to so many of the maker's."""
MOST_TILES = 64


@dataclass(frozen=True)
class Handover:
    """maker, made: the first operation and its tiles. problem: the one between, whose tiles are sought. reaches: units of the maker that it reads, by
    the maker's dimensions. wanted: by dimension, first unit and units of the part of its result with which the last one begins. known: waits found
    before, here or in other plans. cuts: of the operation between, whatever tiles the maker has."""

    maker: Problem
    made: Tiling
    problem: Problem
    reaches: Mapping[str, Reach]
    wanted: Mapping[str, tuple[int, int]]
    known: dict[tuple[Hashable, ...], float] = field(default_factory=dict[tuple[Hashable, ...], float])
    cuts: "dict[tuple[Hashable, ...], _Cut]" = field(default_factory=dict[tuple[Hashable, ...], "_Cut"])

    def best(self, tiling: Tiling, contexts: int) -> tuple[Tiling, Tiling]:
        """Tiles of the maker and of the operation between, the fewest of those with which the last one starts soon; the given ones if no others are
        worth it. The maker's tiles are halved where the wait becomes shorter by more than the maker takes longer."""
        worth, given = WORTH * self.made.estimate, self.wait(tiling)
        found = list(self._alternatives(tiling, contexts)) if given > worth else []
        least = min((cycles for cycles, *_ in found), default=given)
        if given - least <= worth:
            return self.made, tiling
        near = [(made, other) for cycles, made, other in found if cycles - least <= NEAR * (given - least)]
        return min(near, key=lambda pair: (tile_count(self.maker, pair[0]) + tile_count(self.problem, pair[1]), pair[1].estimate))

    def _alternatives(self, tiling: Tiling, contexts: int) -> Iterator[tuple[float, Tiling, Tiling]]:
        """Tiles of both, with the cycles that they cost: those for which the last one waits, and by which the maker takes longer."""
        halved = {name: {size, -(-size // 2)} if name in self.reaches else {size} for name, size in self.made.sizes.items()}
        for made in _of_sizes(self.maker, halved, contexts):
            own, other = {name: {-(-size // cuts) for cuts in CUTS} for name, size in tiling.sizes.items()}, replace(self, made=made)
            for name, reach in self.reaches.items():
                each = made.sizes[name] * len(reach.first) / max(int(reach.stop.max() - reach.first.min()), 1)
                own[reach.dimension] |= {max(int(each * count), 1) for count in CUTS}
            for mine in _of_sizes(self.problem, own, contexts):
                yield made.estimate - self.made.estimate + other.wait(mine), made, mine

    def wait(self, tiling: Tiling) -> float:
        """Cycles for which the last operation waits after the maker's end, where the units do nothing else meanwhile."""
        key = (*self._key, *_form(tiling))
        if key not in self.known:
            self.known[key] = self._wait(tiling)
        return self.known[key]

    @cached_property
    def _key(self) -> tuple[Hashable, ...]:
        """Everything that decides how long it waits beside the tiles of the operation between."""
        reaches = ((name, reach.dimension, reach.first.tobytes(), reach.stop.tobytes()) for name, reach in self.reaches.items())
        return tile_key(self.maker), tile_key(self.problem), *_form(self.made), *reaches, *self.wanted.items()

    def _wait(self, tiling: Tiling) -> float:
        cut, sources = self._cut(tiling), self._sources
        needs = np.ones((len(cut.work), sources.count), np.bool_)
        for name, (first, stop) in cut.reads.items():
            needs &= (first[:, None] < sources.stop[name]) & (sources.first[name] < stop[:, None])
        last = np.where(needs.any(axis=1), sources.count - np.argmax(needs[:, ::-1], axis=1), 0)
        end = _end(self._done[last].tolist(), (cut.work * (tiling.estimate / cut.whole)).tolist(), cut.wanted)
        return max(end - self.made.estimate, 0.0)

    def _cut(self, tiling: Tiling) -> "_Cut":
        """The operation between in these tiles."""
        key = tuple(tiling.sizes.items()), tiling.order
        if key not in self.cuts:
            parts = _parts(self.problem, tiling)
            reads = {name: _read(reach, parts.first[reach.dimension]) for name, reach in self.reaches.items()}
            wanted, work = np.ones(parts.count, np.bool_), _work(self.problem, parts)
            for name, (first, count) in self.wanted.items():
                wanted &= (parts.first[name] < first + count) & (first < parts.stop[name])
            self.cuts[key] = _Cut(reads, wanted.tolist(), work, float(work.sum()))
        return self.cuts[key]

    @cached_property
    def _sources(self) -> "_Parts":
        return _parts(self.maker, self.made)

    @cached_property
    def _done(self) -> Reals:
        """When so many of the maker's parts are done."""
        work = _work(self.maker, self._sources)
        return np.concatenate([[0.0], np.cumsum(work * (self.made.estimate / work.sum()))])


@dataclass(frozen=True)
class _Parts:
    """first, stop: int64 [count] by dimension, the first unit of each part and the one after its last."""

    first: Mapping[str, Ints]
    stop: Mapping[str, Ints]

    @property
    def count(self) -> int:
        return len(next(iter(self.first.values())))


@dataclass(frozen=True)
class _Cut:
    """An operation's parts. reads: by dimension of the maker, first and last unit that each part reads, the last not included. wanted: whether the
    last operation begins with it. work: float64 [count], of each part as the estimate counts it; whole: of all."""

    reads: Mapping[str, tuple[Ints, Ints]]
    wanted: Sequence[bool]
    work: Reals
    whole: float


def _form(tiling: Tiling) -> tuple[Hashable, ...]:
    """The facts of a tiling that its tiles and their cycles follow from; not where they stand."""
    return tuple(tiling.sizes.items()), tiling.order, tiling.estimate


def _of_sizes(problem: Problem, sizes: Mapping[str, Collection[int]], contexts: int) -> Iterator[Tiling]:
    """Tilings of these sizes that are not too many tiles."""
    ranked = rank_tilings(problem, contexts, 1 << 20, among=sizes)
    yield from (tiling for tiling in ranked if tile_count(problem, tiling) <= MOST_TILES)


def _parts(problem: Problem, tiling: Tiling) -> _Parts:
    """The tiles in order, cut into as few rows as an instruction takes: dependences are found for instructions, not for tiles."""
    names = loops_of(problem.kernel.loops, tiling.order)
    firsts = np.meshgrid(*(np.arange(0, problem.extents[name], tiling.sizes[name]) for name in names), indexing="ij")
    first = {name: each.ravel() for name, each in zip(names, firsts, strict=True)}
    stop = {name: np.minimum(each + tiling.sizes[name], problem.extents[name]) for name, each in first.items()}
    for name, step in _multiples(problem).items():
        cuts = -((first[name] - stop[name]) // step)
        inside = np.arange(int(cuts.sum())) - np.repeat(np.cumsum(cuts) - cuts, cuts)
        first, stop = ({each: np.repeat(column, cuts) for each, column in own.items()} for own in (first, stop))
        first[name] += inside * step
        stop[name] = np.minimum(first[name] + step, stop[name])
    return _Parts(first, stop)


def _read(reach: Reach, first: Ints) -> tuple[Ints, Ints]:
    """First and last unit of the maker, the last not included, for each part of the reader. first: of the parts, which cover the dimension."""
    begins = np.zeros(len(reach.first), np.int64)
    begins[first] = 1
    starts, which = np.flatnonzero(begins), np.cumsum(begins)[first] - 1
    return np.minimum.reduceat(reach.first, starts)[which], np.maximum.reduceat(reach.stop, starts)[which]


def _multiples(problem: Problem) -> dict[str, int]:
    """The divisor that all sizes of tiles along a dimension share, where it is more than one: taken for the rows of an instruction."""
    found = {d.name: constant(d.multiple, problem.numbers) for d in problem.kernel.loops if d.multiple is not None}
    return {name: size for name, size in found.items() if size > 1}


def _work(problem: Problem, parts: _Parts) -> Reals:
    """float64 [n]: the work of each part; one with fewer rows takes as long."""
    whole = _multiples(problem)
    work = np.ones(parts.count)
    for name, first in parts.first.items():
        work = work * (parts.stop[name] - first) if name not in whole else work
    return work


def _end(ready: Sequence[float], cycles: Sequence[float], wanted: Sequence[bool]) -> float:
    """When the last part that is wanted is done. The unit takes, whenever it is free, the first part that is ready."""
    now = end = 0.0
    later, here = sorted(range(len(ready)), key=lambda part: (-ready[part], -part)), list[int]()
    while later or here:
        now = now if here else max(now, ready[later[-1]])
        while later and ready[later[-1]] <= now:
            heappush(here, later.pop())
        part = heappop(here)
        now += cycles[part]
        end = now if wanted[part] else end
    return end
