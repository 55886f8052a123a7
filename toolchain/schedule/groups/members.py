"""Members of groups: over one loop of rows, their slabs and tiles; over one loop of tiles, neighbours whose kernels take a tile as another one
leaves it on chip."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from toolchain.isa.footprint.loop_nest import pipelined_steps
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem, keep_on_chip
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Residents, group_numbers, grouped
from toolchain.schedule.placement.shared_memory import also_sharing
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_group import RowGroup, group_tensors
from toolchain.schedule.rows.row_loop import HEIGHT, Loadable, RowLoop, find_loadable, row_dimension
from toolchain.schedule.tiling.slots import SlotsBeside, find_rings
from toolchain.schedule.tiling.tile_group import TileGroup, make_tile_group
from toolchain.schedule.tiling.tile_search import Tiled, search_tiles
from toolchain.schedule.tiling.tile_table import size_limits
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import align, constant
from toolchain.spec.model import Machine

LONGEST = 8
"""Operations of a group."""

Planned = tuple[list[Problem], list[Tiling]]


@dataclass(frozen=True)
class TileGroups:
    """kernels: of the machine. plan: of operations one by one. choice: of its tiles. counts: by operation, how many streams share its tiles.

    asked: stretches in which an operation may make its result beside the tile that it takes, not only upon it: a convolution of another one's tile.
    Such a group holds two tiles, and loads weights again for each, so that it is rarely quicker, and takes long to search."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    plan: Plan
    choice: TileChoice
    counts: Sequence[int]
    asked: Sequence[range] = ()

    def proposals(self) -> Iterator[tuple[TileGroup, Tiled]]:
        """Every group whose tiles fit, of operations that as many streams share. None where pipelines have rules: no order of several operations'
        instructions is checked against those."""
        if pipelined_steps(self.machine):
            return
        for last in range(len(self.plan.region.operations)):
            for members in (range(first, last + 1) for first in range(last - 1, max(last - LONGEST, -1), -1)):
                problems, streams = self._problems(members), self.counts[last]
                if problems is None or self.counts[members[0]] != streams:
                    break
                group = make_tile_group(self.plan.region, members, problems)
                if isinstance(group, TileGroup) and (found := self._tiles(group, streams)) is not None:
                    yield group, found
                    if self._is_slower(group, found):
                        break

    def _is_slower(self, group: TileGroup, found: Tiled) -> bool:
        """Whether a group that makes a result beside a tile takes longer than its operations apart: one with more before it holds still more."""
        beside = any(problem.kernel.passed and not problem.kernel.in_place for problem in group.problems)
        return beside and found.cycles > sum(self.plan.tilings[index].estimate for index in group.operations)

    def _tiles(self, group: TileGroup, streams: int) -> Tiled | None:
        """Groups of the same operations, each storing its result or not, share one search."""
        key = tuple(self.choice.key(problem) for problem in group.problems), tuple(group.passes), streams
        if key not in self.choice.groups:
            self.choice.groups[key] = search_tiles(group, self.choice.contexts, streams)
        return self.choice.groups[key]

    def _problems(self, operations: range) -> list[Problem] | None:
        """Each for a kernel that takes the others' results, in the room that tensors on chip leave to all of them; None where there is none, or where
        a tensor that one makes or takes from another stays on chip."""
        kernels = self._takers(operations)
        residents = self._residents(operations) if self._takes(kernels, operations[-1]) else None
        if residents is None:
            return None
        found: list[Problem] = []
        for index in operations:
            own, bound = self.plan.problems[index], self.plan.region.operations[index]
            made = {self.plan.region.operations[other].tensors["y"] for other in operations if other < index}
            passed = [name for name, tensor in bound.tensors.items() if name != "y" and tensor in made]
            if not own.kept.keys().isdisjoint(("y", *passed)):
                return None
            if passed:
                try:
                    own = choose_kernel(self.machine, kernels, bound.operation, self.plan.region.alone(bound), passed)
                except UserError:
                    return None
                own = keep_on_chip(also_sharing(own, self.plan.problems[index]), self.plan.problems[index].kept, True, own.pools)
            found.append(replace(own, pools=residents.left(operations[0])))
        return found

    def _takers(self, operations: range) -> Mapping[str, Kernel]:
        """The kernels that may take tiles in a group of these operations."""
        asked = any(operations[0] in each and operations[-1] in each for each in self.asked)
        return self._every if asked else self._in_place

    @cached_property
    def _every(self) -> Mapping[str, Kernel]:
        return {name: kernel for name, kernel in self.kernels.items() if kernel.passed}

    @cached_property
    def _in_place(self) -> Mapping[str, Kernel]:
        return {name: kernel for name, kernel in self._every.items() if kernel.in_place}

    def _takes(self, kernels: Mapping[str, Kernel], operation: int) -> bool:
        """Whether one of the kernels computes an operation."""
        return any(kernel.computes == self.plan.region.operations[operation].operation.kind.name for kernel in kernels.values())

    def _residents(self, operations: range) -> Residents | None:
        """The tensors that are on chip while these operations work as one group; None where two of them would stand in one place."""
        every = self.plan.residents
        live = {name: each for name, each in every.candidates.items() if each.first <= operations[-1] and operations[0] <= each.last}
        numbers = group_numbers(len(self.plan.problems), [operations])
        found = Residents({name: every.slots[name] for name in live}, grouped(live, numbers, every.rings), numbers, every.pools, every.rings)
        return None if any(found.collisions()) else found


@dataclass(frozen=True)
class Members:
    """problems: of every operation of the region, with nothing on chip."""

    region: Region
    storage: Storage
    problems: Sequence[Problem]
    choice: TileChoice
    _loops: dict[tuple[int, bool], RowLoop | None] = field(default_factory=dict[tuple[int, bool], "RowLoop | None"])

    def tensors(self, members: range, loads: Sequence[Loadable] = ()) -> list[dict[str, str]]:
        """By member and place, buffers. loads: rings that are loaded."""
        return group_tensors(self.region, self.storage, members, loads)

    def loadable(self, members: range, residents: Residents) -> list[Loadable]:
        """Tensors in DRAM that are worth a ring: several of the members read them, or one that reads some rows again."""
        readers: dict[str, list[tuple[int, str]]] = {}
        for index, tensors in zip(members, self.tensors(members), strict=True):
            for place, tensor in tensors.items():
                if place != "y" and tensor not in residents.candidates:
                    readers.setdefault(tensor, []).append((index, place))
        worth = [tensor for tensor, found in readers.items() if len(found) > 1 or self._again(*found[0])]
        found = (find_loadable(self.region, self.problems, self.storage, members, tensor) for tensor in worth)
        return [load for load in found if load is not None and self._is_worth(load)]

    def _is_worth(self, load: Loadable) -> bool:
        """Whether a ring saves any byte: operations that have the tensor in another form do not use it."""
        return len(load.candidate.reads) > 1 or self._again(load.loader.operation, load.loader.place.name)

    def _again(self, index: int, place: str) -> bool:
        """Whether slabs of an operation read some rows again."""
        loop = self._loop(index, False)
        rows = loop.reads(place) if loop else []
        return any(after.start < before.stop for before, after in itertools.pairwise(rows))

    def loops(self, members: range, over: frozenset[str]) -> list[RowLoop]:
        """The members' loops over rows; none where one of them has no rows. over: results that stand in the place of an operand."""
        found = [self._loop(index, tensors["y"] in over) for index, tensors in zip(members, self.tensors(members), strict=True)]
        return [loop for loop in found if loop is not None] if all(found) else []

    def _loop(self, index: int, over: bool) -> RowLoop | None:
        if (index, over) not in self._loops:
            self._loops[index, over] = _row_loop(self.problems[index], over)
        return self._loops[index, over]

    def tiles(self, group: RowGroup, residents: Residents) -> Planned | None:
        """The members with the tensors on chip, and their tiles beside each other; None where a member finds no room."""
        problems = [self._kept(index, loop, residents) for index, loop in zip(group.operations, group.loops, strict=True)]
        rings = find_rings(problems)
        slots, tilings = SlotsBeside(rings), list[Tiling]()
        needy = sum(any(not _stands(p, name) for name in p.memories) for p in problems)
        for problem in problems:
            left = {memory: pools if memory in rings else _share(pools, needy) for memory, pools in slots.left(problem).items()}
            try:
                tiling = self.choice.best(replace(problem, pools=left))
            except UserError as error:
                if error.diagnostics[0].code != "E1004":
                    raise
                return None
            tilings.append(tiling)
            needy -= any(not _stands(problem, name) for name in problem.memories)
            slots.add(problem, tiling)
        depths = {memory: ring.depth for memory, ring in rings.items()}
        return (problems, tilings) if _stay(problems, tilings, depths) else None

    def _kept(self, index: int, loop: RowLoop, residents: Residents) -> Problem:
        root = self.storage.places[self.region.operations[index].tensors["y"]][0]
        kept = keep_on_chip(self.problems[index], residents.kept(index), residents.stored(root), residents.left(index))
        return replace(kept, slab=(loop.dimension, loop.size))


def _row_loop(problem: Problem, over: bool) -> RowLoop | None:
    """Slabs of half a line at least, of a whole one where the result stands in the place of an operand."""
    name = row_dimension(problem)
    rows = next((p.whole.rows for p in problem.kernel.places if p.whole and p.whole.rows and p.whole.rows.of == name), None)
    if name is None or rows is None:
        return None
    together = constant(rows.together, problem.numbers)
    most, multiple = size_limits(problem, name)
    unit = problem.operation.output[HEIGHT] // problem.extents[name]
    size = min(align(max(-(-(together if over else together // 2) // unit), 1), multiple), most)
    return RowLoop(problem, name, size)


def _stands(problem: Problem, place: str) -> bool:
    return place in problem.kept or place in problem.known


def _share(pools: Sequence[Pool], needy: int) -> tuple[Pool, ...]:
    """A part of each pool, so that others find room too."""
    return tuple(replace(pool, depth=pool.depth // max(needy, 1)) for pool in pools)


def _stay(problems: Sequence[Problem], tilings: Sequence[Tiling], depths: Mapping[str, int]) -> bool:
    """Whether all constants fit at once: every slab needs them again."""
    for memory, depth in depths.items():
        rooms = [
            tiling.room[name] * len(slots)
            for problem, tiling in zip(problems, tilings, strict=True)
            for name, slots in tiling.places.items()
            if problem.memories[name] == memory
        ]
        if sum(rooms) + max(rooms, default=0) > depth:
            return False
    return True
