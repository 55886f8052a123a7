"""Tiles like the maker's: an operation for another unit takes a tensor on chip in the pieces in which it is made.

With few large tiles it begins when much is made, and the work that is left after the last piece keeps the next operation waiting.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from toolchain.schedule.branch_order import main_unit, working_units
from toolchain.schedule.fusion.reach import Reach, touched, units_of
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.regions.region import Region
from toolchain.schedule.side_by_side import Planned
from toolchain.schedule.tile_choice import Key, TileChoice
from toolchain.schedule.tiling.order import Tile, tiles_over
from toolchain.schedule.tiling.overlap import Floats
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.arrays import Ints
from toolchain.spec.evaluate import constant

WORTH = 0.005
"""The share of the maker's cycles by which the next operation must start earlier for its tensor to come in smaller tiles."""
MOST_TILES = 64
"""Tiles of the operation between; more of them gain little."""

Ends = Mapping[str, tuple[int, int]]
"""By dimension, the first unit and the units of a part of a tensor."""


def follow_makers(region: Region, planned: Sequence[Planned], choice: TileChoice) -> list[Planned]:
    """The operations, those between two of one unit in tiles that let the second of these start earlier. Estimates decide."""
    main, works = main_unit([problem for problem, _ in planned]), [working_units(problem.steps) for problem, _ in planned]
    found, known = list(planned), dict[tuple[object, ...], tuple[Tiling, Tiling]]()
    for index, (problem, tiling) in enumerate(planned):
        maker, reader = _maker(region, found, index), _reader(region, found, index)
        if maker is None or reader is None or [k for k in range(maker[0], reader[0] + 1) if main in works[k]] != [maker[0], reader[0]]:
            continue
        reaches = _reaches(region, found, maker, index)
        wanted = _first_part(problem, *found[reader[0]], reader[1])
        if not reaches or wanted is None:
            continue
        chain = _Chain(*found[maker[0]], problem, reaches, wanted)
        key = choice.key(chain.maker), tuple(chain.made.sizes.items()), chain.made.order, choice.key(problem), tuple(wanted.items())
        if key not in known:
            known[key] = chain.best(tiling, choice.contexts)
        found[maker[0]], found[index] = (chain.maker, known[key][0]), (problem, known[key][1])
    return found


def _maker(region: Region, planned: Sequence[Planned], index: int) -> tuple[int, str] | None:
    """The last operation before that makes an operand on chip or a part of it, and which."""
    bound = region.operations[index]
    kept = {region.stands_in(tensor)[0]: name for name, tensor in bound.tensors.items() if name != "y" and name in planned[index][0].kept}
    made = ((other, region.stands_in(region.operations[other].tensors["y"])[0]) for other in range(index - 1, -1, -1))
    return next(((other, kept[whole]) for other, whole in made if whole in kept), None)


def _reaches(region: Region, planned: Sequence[Planned], maker: tuple[int, str], index: int) -> dict[str, Reach]:
    """By dimension of the maker, the units that each unit of an operation reads: less than none or too many where others make them."""
    problem, operand = planned[maker[0]][0], maker[1]
    found = {name: reach for name, (reach, _) in touched(problem, planned[index][0], operand)}
    (_, made), (_, read) = region.stands_in(region.operations[maker[0]].tensors["y"]), region.stands_in(region.operations[index].tensors[operand])
    units = {name: unit for name, unit in (units_of(problem) or {}).values()}
    name = problem.kernel.axes.get("c", "")
    if name in found:
        before = (made - read) // units[name]
        found[name] = Reach(found[name].dimension, found[name].first - before, found[name].stop - before)
    return found


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

    def best(self, tiling: Tiling, contexts: int) -> tuple[Tiling, Tiling]:
        """The maker's tiles and the fewest of those after which the next operation starts soon; the given ones if no others are worth it."""
        worth, given = WORTH * self.made.estimate, self.late(tiling)
        if given <= worth:
            return self.made, tiling
        makers = {name: {size, -(-size // 2)} if name in self.reaches else {size} for name, size in self.made.sizes.items()}
        found: list[tuple[float, Tiling, Tiling]] = []
        for made in _like(self.maker, makers, contexts):
            chain = replace(self, made=made)
            own = {name: {size, *(-(-size // times) for times in range(2, 8))} for name, size in tiling.sizes.items()}
            for name, reach in self.reaches.items():
                own[reach.dimension] |= {self._own(reach, made.sizes[name]) * times for times in (1, 2, 4, 8)}
            found += [(made.estimate - self.made.estimate + chain.late(other), made, other) for other in _like(self.problem, own, contexts)]
        least = min((late for late, *_ in found), default=given)
        if given - least <= worth:
            return self.made, tiling
        near = [(made, other) for late, made, other in found if late - least <= (given - least) / 8]
        return min(near, key=lambda pair: (len(_tiles(self.maker, pair[0])) + len(_tiles(self.problem, pair[1])), pair[1].estimate))

    def _own(self, reach: Reach, size: int) -> int:
        """About so many units as read the maker's."""
        return max(size * len(reach.first) // max(int(reach.stop.max() - reach.first.min()), 1), 1)

    def late(self, tiling: Tiling) -> float:
        """Cycles for which the next operation waits after the maker's end, where the units do nothing else meanwhile."""
        parts, sources = _parts(self.problem, tiling), _parts(self.maker, self.made)
        needs, wanted = np.ones((len(parts), len(sources)), np.bool_), np.ones(len(parts), np.bool_)
        for name, reach in self.reaches.items():
            first, count = np.array([reach.part(*part[reach.dimension]) for part in parts], np.int64).T
            needs &= _meet(first, count, *_ends(sources, name))
        for name, (first, count) in self.wanted.items():
            own, size = _ends(parts, name)
            wanted &= (own < first + count) & (first < own + size)
        last = np.where(needs.any(axis=1), len(sources) - np.argmax(needs[:, ::-1], axis=1), 0)
        done = np.concatenate([[0.0], np.cumsum(_cycles(self.maker, self.made, sources))])
        return max(_end(done[last].tolist(), _cycles(self.problem, tiling, parts).tolist(), wanted.tolist()) - self.made.estimate, 0.0)


def _like(problem: Problem, sizes: Mapping[str, Collection[int]], contexts: int) -> Iterator[Tiling]:
    """Tilings of these sizes."""
    for tiling in rank_tilings(problem, contexts, 1 << 20):
        if all(size in sizes[name] for name, size in tiling.sizes.items()) and len(_tiles(problem, tiling)) <= MOST_TILES:
            yield tiling


def _tiles(problem: Problem, tiling: Tiling) -> list[Tile]:
    return tiles_over(problem, problem.kernel.loops, tiling.sizes, tiling.order)


def _parts(problem: Problem, tiling: Tiling) -> list[Tile]:
    """The tiles in order, cut into as few rows as an instruction takes: dependences are found for instructions, not for tiles."""
    found = _tiles(problem, tiling)
    for name, step in _multiples(problem).items():
        found = [{**tile, name: (at, min(step, sum(tile[name]) - at))} for tile in found for at in range(tile[name][0], sum(tile[name]), step)]
    return found


def _multiples(problem: Problem) -> dict[str, int]:
    """The least size of a tile along dimensions where that is more than one."""
    found = {d.name: constant(d.multiple, problem.numbers) for d in problem.kernel.loops if d.multiple is not None}
    return {name: size for name, size in found.items() if size > 1}


def _cycles(problem: Problem, tiling: Tiling, parts: Sequence[Tile]) -> Floats:
    """float64 [n], of each part of the estimate; a part that is not full takes as long."""
    whole = _multiples(problem)
    work = np.array([math.prod(size for name, (_, size) in part.items() if name not in whole) for part in parts], np.float64)
    return work * (tiling.estimate / work.sum())


def _ends(tiles: Sequence[Tile], name: str) -> tuple[Ints, Ints]:
    """The first unit of each tile along a dimension, and its units."""
    first, count = np.array([tile[name] for tile in tiles], np.int64).T
    return first, count


def _meet(first: Ints, count: Ints, other: Ints, size: Ints) -> np.ndarray:
    """bool [n, m]: whether ranges have units in common with others."""
    return (first[:, None] < other + size) & (other < (first + count)[:, None])


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
