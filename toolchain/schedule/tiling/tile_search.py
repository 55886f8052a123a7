"""The tiles of all operations of a group at once: every size of the last one's, the tiles that the others have to make for it, and room for all."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.kernels.pools import Rooms, Taken
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.step_cost import overlapped
from toolchain.schedule.tiling.tile_group import Reach, TileGroup
from toolchain.schedule.tiling.tile_table import allowed, rooms_of, size_limits, sizes_along, tile_names, trips_of
from toolchain.schedule.tiling.tiles import STEP, Candidates, Tiling, busiest, fill_slots, take_slots
from toolchain.spec.arrays import Ints, Reals, rows_of

MOST_ROWS = 1 << 16
"""Combinations of sizes that are looked at; of more, those of dimensions that reduce are thinned out."""
Number = TypeVar("Number", np.int64, np.float64)
Columns = list[dict[str, Ints]]
"""By member and dimension, sizes of tiles."""


@dataclass(frozen=True)
class Tiled:
    """tilings: of every member. cycles: estimated. streams: how many share the turns."""

    tilings: Sequence[Tiling]
    cycles: float
    streams: int = 1


def search_tiles(group: TileGroup, contexts: int, streams: int = 1) -> Tiled | None:
    """The best tiles by estimate; contexts: slots that each place has at least, fewer where nothing fits so. streams: how many share the turns. None
    where nothing fits."""
    return next((found for count in range(contexts, 0, -1) if (found := _with_contexts(group, count, streams)) is not None), None)


def _with_contexts(group: TileGroup, contexts: int, streams: int) -> Tiled | None:
    found = find_tiles(group, contexts, streams)
    if found is None:
        return None
    best: tuple[float, int, tuple[str, ...]] | None = None
    for order in found.orders():
        cycles = found.estimate(order) if streams == 1 else found.shared(order)
        index = int(np.argmin(cycles))
        if best is None or cycles[index] < best[0]:
            best = float(cycles[index]), index, order
    assert best is not None
    return found.tiled(*best)


@dataclass(frozen=True)
class GroupTiles:
    """members: legal tiles of each, a row of all of them together."""

    group: TileGroup
    members: Sequence[Candidates]
    contexts: int

    def orders(self) -> Iterator[tuple[str, ...]]:
        """Orders of the last member's loops."""
        last = self.members[-1].problem
        return itertools.permutations(d.name for d in last.kernel.loops if last.extents[d.name] > 1)

    def tiled(self, cycles: float, index: int, order: tuple[str, ...]) -> Tiled | None:
        """One row; None where readers would see tiles otherwise than they lie. Each member's estimate is its share of the work."""
        orders = [self.group.order_of(member, order) for member in range(len(self.members))]
        work = [sum(float(busy[index]) for busy in each.busy(own).values()) for each, own in zip(self.members, orders, strict=True)]
        parts = zip(self.members, orders, work, strict=True)
        tilings = [each.tiling(index, own, cycles * part / max(sum(work), 1.0)) for each, own, part in parts]
        wrong = self.group.disagreement(self.group.tiles(tilings[-1].sizes, order))
        return None if wrong else Tiled(tilings, cycles, self.members[-1].streams)

    def shared(self, order: tuple[str, ...]) -> Reals:
        """Cycles: as `Candidates.shared`, of all members together."""
        orders = [self.group.order_of(member, order) for member in range(len(self.members))]
        parts = [each.parted(own) for each, own in zip(self.members, orders, strict=True)]
        one, ports = replace(self, members=[part for part, _ in parts]), dict[str, Reals]()
        for (part, streams), own in zip(parts, orders, strict=True):
            for name, cycles in part.on_ports(own, streams).items():
                ports[name] = ports.get(name, np.zeros_like(cycles)) + cycles
        found = one.estimate(order)
        return np.maximum(found, busiest(ports, len(found)))

    def estimate(self, order: tuple[str, ...]) -> Reals:
        """Cycles: as `Candidates.estimate`, of all members together. Around the busiest unit: the first one's first loads, the last one's store."""
        busy: dict[str, Reals] = {}
        ends: Reals = np.zeros(len(next(iter(self.members[0].sizes.values()))))
        for number, member in enumerate(self.members):
            own = self.group.order_of(number, order)
            for unit, cycles in member.busy(own).items():
                busy[unit] = busy.get(unit, np.zeros_like(ends)) + cycles
            for step, costs in member.costs:
                exposed = (step.kind == "load" and number == 0) or (step.kind == "store" and number == len(self.members) - 1)
                ends = ends + sum(costs.values()) * exposed + member.times(step, own) * STEP
        return overlapped(list(busy.values()), ends, self.contexts)


def find_tiles(group: TileGroup, contexts: int, streams: int = 1) -> GroupTiles | None:
    """Legal tiles that fit with so many slots of each place; None where there are none. streams: how many share the turns."""
    sizes = _sizes(group)
    names = [tile_names(problem, own) for problem, own in zip(group.problems, sizes, strict=True)]
    limited = [_within_limits(problem, own) for problem, own in zip(group.problems, sizes, strict=True)]
    legal = np.logical_and.reduce([*limited, *(allowed(problem, own) for problem, own in zip(group.problems, names, strict=True))])
    if not legal.any():
        return None
    sizes, names = _rows(sizes, legal), _rows(names, legal)
    count = int(legal.sum())
    rooms = [rooms_of(problem, own) for problem, own in zip(group.problems, names, strict=True)]
    trips = _trips(group, sizes)
    free, taken = Rooms(group.problems[0].pools, count), list[dict[str, list[Taken]]]()
    for problem, own, room in zip(group.problems, trips, rooms, strict=True):
        taken.append(take_slots(problem, own, room, contexts, free))
    fits = free.fit
    for member, problem in enumerate(group.problems):
        taken[member] = fill_slots(problem, trips[member], rooms[member], contexts, free, taken[member])
    for (member, place), (root, own) in group.roots.items():
        rooms[member][place], taken[member][place] = rooms[root][own], taken[root][own]
    if not fits.any():
        return None
    held = [{name: [Taken(t.pool[fits], t.address[fits], t.count[fits]) for t in parts] for name, parts in each.items()} for each in taken]
    parts = zip(group.problems, *(_rows(each, fits) for each in (sizes, names, rooms)), held, _rows(trips, fits), strict=True)
    return GroupTiles(
        group, [Candidates(problem, own, named, room, slots, contexts, times, streams) for problem, own, named, room, slots, times in parts], contexts
    )


def _within_limits(problem: Problem, sizes: Mapping[str, Ints]) -> NDArray[np.bool_]:
    """bool [n]: whether a kernel takes tiles of these sizes, which may follow from those of a reader."""
    legal = np.ones(len(next(iter(sizes.values()))), np.bool_)
    for name, own in sizes.items():
        most, multiple = size_limits(problem, name)
        legal &= (own <= most) & ((own % multiple == 0) | (own == problem.extents[name]))
    return legal


def _rows(columns: Sequence[Mapping[str, NDArray[Number]]], kept: NDArray[np.bool_]) -> list[dict[str, NDArray[Number]]]:
    """The kept rows of every column."""
    return [rows_of(each, kept) for each in columns]


def _sizes(group: TileGroup) -> Columns:
    """Every combination of the last member's sizes and of those of all that reduces, with the tiles that the others make for them."""
    axes = [
        ((m, d.name), sizes_along(problem, d)) for m, problem in enumerate(group.problems) for d in problem.kernel.tile if _free(group, m, d.name)
    ]
    while math.prod(len(sizes) for _, sizes in axes) > MOST_ROWS:
        longest = max(range(len(axes)), key=lambda k: len(axes[k][1]))
        axes[longest] = axes[longest][0], axes[longest][1][::-2][::-1]
    grid = [part.ravel() for part in np.meshgrid(*(np.array(sizes, np.int64) for _, sizes in axes), indexing="ij")]
    found: Columns = [{} for _ in group.problems]
    for ((member, name), _), column in zip(axes, grid, strict=True):
        found[member][name] = column
    found = [
        {**own, **derived}
        for own, derived in zip(found, group.derived(found[-1], partial(_each, Reach.largest), partial(_each, Reach.most)), strict=True)
    ]
    order = [[d.name for d in problem.kernel.tile] for problem in group.problems]
    return [{name: own[name] for name in names} for names, own in zip(order, found, strict=True)]


def _each(most: Callable[[Reach, int], int], reach: Reach, sizes: Ints) -> Ints:
    """The most units of the maker that each size of a reader's tile needs."""
    largest = {size: most(reach, size) for size in np.unique(sizes).tolist()}
    return np.array([largest[size] for size in sizes.tolist()], np.int64)


def _free(group: TileGroup, member: int, name: str) -> bool:
    """Whether a dimension follows from no other one."""
    return member == len(group.problems) - 1 or name not in group.reaches[member]


def _trips(group: TileGroup, sizes: Columns) -> list[dict[str, Reals]]:
    """How many tiles of each dimension there are: as many as the last member has."""
    found = [trips_of(problem, own) for problem, own in zip(group.problems, sizes, strict=True)]
    return [{**own, **derived} for own, derived in zip(found, group.derived(found[-1], lambda _, trips: trips), strict=True)]
