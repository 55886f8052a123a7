"""Tiles like the maker's: an operation for another unit takes a tensor on chip in the pieces in which it is made.

With few large tiles it begins when much is made, and the work that is left after the last piece keeps the next operation waiting.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.schedule.branch_order import working_units
from toolchain.schedule.fusion.reach import Reach, touched
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.regions.region import Region
from toolchain.schedule.side_by_side import Planned
from toolchain.schedule.tile_choice import Key, TileChoice
from toolchain.schedule.tiling.order import Tile, tiles_over
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.arrays import Ints

WORTH = 0.005
"""The share of the maker's cycles by which the next operation must start earlier for its tensor to come in smaller tiles."""
MOST_TILES = 64
"""Tiles of the operation between; more of them gain little."""

Ends = Mapping[str, tuple[int, int]]
"""By dimension, the first unit and the units of a part of a tensor."""


def follow_makers(region: Region, planned: Sequence[Planned], choice: TileChoice) -> list[Planned]:
    """The operations, those between two of one unit in tiles that let the second of these start earlier. Estimates decide."""
    found, known = list(planned), dict[tuple[object, ...], Tiling]()
    for index, (problem, tiling) in enumerate(planned):
        maker, reader = _maker(region, found, index), _reader(region, found, index)
        if maker is None or reader is None or not _units(found[maker[0]]) & _units(found[reader[0]]) - _units(found[index]):
            continue
        reaches = {name: reach for name, (reach, _) in touched(found[maker[0]][0], problem, maker[1])}
        wanted = _first_part(problem, *found[reader[0]], reader[1])
        if not reaches or wanted is None:
            continue
        chain = _Chain(*found[maker[0]], problem, reaches, wanted)
        key = choice.key(chain.maker), tuple(chain.made.sizes.items()), chain.made.order, choice.key(problem), tuple(wanted.items())
        if key not in known:
            known[key] = chain.best(tiling, choice.contexts)
        found[index] = problem, known[key]
    return found


def _units(planned: Planned) -> set[str]:
    return working_units(planned[0].steps)


def _maker(region: Region, planned: Sequence[Planned], index: int) -> tuple[int, str] | None:
    """The last operation before that makes an operand on chip, and which."""
    bound = region.operations[index]
    kept = {tensor: name for name, tensor in bound.tensors.items() if name != "y" and name in planned[index][0].kept}
    made = ((other, region.operations[other].tensors["y"]) for other in range(index - 1, -1, -1))
    return next(((other, kept[tensor]) for other, tensor in made if tensor in kept), None)


def _reader(region: Region, planned: Sequence[Planned], index: int) -> tuple[int, str] | None:
    """The first operation after it that reads the result, kept on chip, and as which operand."""
    made = region.operations[index].tensors["y"]
    readers = ((other, name) for other in range(index + 1, len(planned)) for name, tensor in region.operations[other].tensors.items() if tensor == made)
    return next(readers, None) if "y" in planned[index][0].kept else None


def _first_part(problem: Problem, reader: Problem, tiling: Tiling, operand: str) -> Ends | None:
    """The part of a result with which its reader begins; None where the kernels do not say."""
    found = dict(touched(problem, reader, operand))
    return {name: reach.part(0, tiling.sizes[reach.dimension]) for name, (reach, _) in found.items()} or None


@dataclass(frozen=True)
class _Chain:
    """maker, made: the first operation and its tiles. problem: the one whose tiles are sought. reaches: units of the maker that it reads, by the
    maker's dimensions. wanted: the part of its result with which the next operation begins."""

    maker: Problem
    made: Tiling
    problem: Problem
    reaches: Mapping[str, Reach]
    wanted: Ends

    def best(self, tiling: Tiling, contexts: int) -> Tiling:
        """The fewest tiles of those after which the next operation starts soon; the given ones if no others are worth it."""
        worth, given = WORTH * self.made.estimate, self.late(tiling)
        others = [(self.late(other), other) for other in self._like(tiling, contexts)] if given > worth else []
        least = min((late for late, _ in others), default=given)
        if given - least <= worth:
            return tiling
        near = [other for late, other in others if late - least <= (given - least) / 8]
        return min(near, key=lambda other: (len(_tiles(self.problem, other)), other.estimate))

    def _like(self, tiling: Tiling, contexts: int) -> Iterator[Tiling]:
        """Tilings with the given sizes or with those that the maker's come to."""
        sizes = {name: {size} for name, size in tiling.sizes.items()}
        for name, reach in self.reaches.items():
            own = self.made.sizes[name]
            sizes[reach.dimension] |= {own * times for times in (1, 2, 4, 8)}
        for other in rank_tilings(self.problem, contexts, 1 << 20):
            if all(size in sizes[name] for name, size in other.sizes.items()) and len(_tiles(self.problem, other)) <= MOST_TILES:
                yield other

    def late(self, tiling: Tiling) -> float:
        """Cycles from the maker's end to the moment at which the next operation can start; less than none before. Units do nothing else meanwhile."""
        tiles, sources = _tiles(self.problem, tiling), _tiles(self.maker, self.made)
        needs, wanted = np.ones((len(tiles), len(sources)), np.bool_), np.ones(len(tiles), np.bool_)
        for name, reach in self.reaches.items():
            first, count = np.array([reach.part(*tile[reach.dimension]) for tile in tiles], np.int64).T
            needs &= _meet(first, count, *_ends(sources, name))
        for name, (first, count) in self.wanted.items():
            own, size = _ends(tiles, name)
            wanted &= (own < first + count) & (first < own + size)
        last = len(sources) - np.argmax(needs[:, ::-1], axis=1)
        ready, cycles = last * (self.made.estimate / len(sources)), tiling.estimate / len(tiles)
        return _end(ready.tolist(), cycles, wanted.tolist()) - self.made.estimate


def _tiles(problem: Problem, tiling: Tiling) -> list[Tile]:
    return tiles_over(problem, problem.kernel.loops, tiling.sizes, tiling.order)


def _ends(tiles: Sequence[Tile], name: str) -> tuple[Ints, Ints]:
    """The first unit of each tile along a dimension, and its units."""
    first, count = np.array([tile[name] for tile in tiles], np.int64).T
    return first, count


def _meet(first: Ints, count: Ints, other: Ints, size: Ints) -> np.ndarray:
    """bool [n, m]: whether ranges have units in common with others."""
    return (first[:, None] < other + size) & (other < (first + count)[:, None])


def _end(ready: Sequence[float], cycles: float, wanted: Sequence[bool]) -> float:
    """When the last tile that is wanted is done, each of so many cycles and begun no earlier than it is ready."""
    now = end = 0.0
    for moment, asked in zip(ready, wanted, strict=True):
        now = max(now, moment) + cycles
        end = now if asked else end
    return end
