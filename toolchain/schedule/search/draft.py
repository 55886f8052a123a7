"""Drafts of a region's schedule: the choices that a policy makes, from which all others follow by estimates."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import networkx as nx

from toolchain.schedule.bank_choice import has_ports
from toolchain.schedule.groups.timed import Clocks, StretchClock
from toolchain.schedule.kernel_selection import able_kernels, host_cycles
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, copied_places
from toolchain.schedule.options import Options
from toolchain.schedule.planner import Planner, bound_problem
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_loop import HEIGHT, row_dimension
from toolchain.schedule.search.cover import operation_graph
from toolchain.schedule.side_by_side import branch_order
from toolchain.schedule.tiling.tiles import tile_fits
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Together:
    """A sub-graph, for the reader: its operations by name, the axis of its outputs along which it is split, into how many instances, and how many
    operations that splits. No axis: no split lets an instance fit the memory of a core."""

    names: tuple[str, ...]
    axis: str = ""
    factor: int = 0
    split: int = 0


@dataclass(frozen=True)
class Draft:
    """order: of all operations, by their index in the region. kernels: by operation, where it is another one than partitioning chose. tiles: by
    operation, the number of another tiling than the best by the estimate (`other_tilings`). backward: operations with their last rows first.
    together:
    operations next to each other in the order, which may share a loop over tiles with any kernel that takes tiles. origin, subgraphs: the move that
    made it, and the sub-graphs, for the reader."""

    order: tuple[int, ...]
    kernels: tuple[tuple[int, str], ...] = ()
    origin: str = field(default="", compare=False)
    together: tuple[tuple[int, ...], ...] = ()
    tiles: tuple[tuple[int, int], ...] = ()
    subgraphs: tuple[Together, ...] = field(default=(), compare=False)
    backward: tuple[int, ...] = ()

    def reordered(self, order: tuple[int, ...], origin: str) -> "Draft":
        """The draft in another order, without the sets that it takes apart."""
        return replace(self, order=order, together=tuple(each for each in self.together if adjacent(each, order)), origin=origin)


def adjacent(members: Collection[int], order: Sequence[int]) -> bool:
    """Whether operations stand next to each other."""
    places = sorted(order.index(member) for member in members)
    return places[-1] - places[0] == len(places) - 1


@dataclass(frozen=True)
class Space:
    """The drafts of one region on one machine."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    region: Region
    options: Options

    @cached_property
    def graph(self) -> "nx.DiGraph[int]":
        """The region's operations, by index, with an edge to each reader."""
        return operation_graph(self.region)

    @cached_property
    def problems(self) -> Sequence[Problem]:
        """The operations for the kernels that partitioning chose, in the region's order."""
        return [bound_problem(self.machine, self.kernels, self.region, bound) for bound in self.region.operations]

    @cached_property
    def first(self) -> Draft:
        """The region's own order, but for operations that do best beside another branch."""
        return self.relieved(tuple(range(len(self.region.operations))), "greedy")

    def relieved(self, order: tuple[int, ...], origin: str) -> Draft:
        """The order with operations that leave the busiest unit alone beside the longest of another branch; several streams keep it as it is."""
        if self.options.streams > 1:
            return Draft(order, origin=origin)
        ordered = replace(self.region, operations=tuple(self.region.operations[index] for index in order))
        problems = [self.problems[index] for index in order]
        cycles = [self.clock.choice.best(problem).estimate for problem in problems] if has_ports(self.machine) else None
        return Draft(tuple(order[place] for place in branch_order(ordered, problems, cycles)), origin=origin)

    @cached_property
    def copied_rows(self) -> tuple[int, ...]:
        """Operations with as many rows as one whose kernel can copy some of an operand, and whose tiles do not divide them. If they run backward, the
        last rows are copied beside the other tiles, and not when all are there."""
        rows: dict[int, list[int]] = {}
        cut: set[int] = set()
        for index, problem in enumerate(self.problems):
            dimension = row_dimension(problem)
            if dimension is not None:
                height = problem.operation.output[HEIGHT]
                rows.setdefault(height, []).append(index)
                if copied_places(problem) and problem.extents[dimension] % self.clock.choice.best(problem).sizes[dimension]:
                    cut.add(height)
        return tuple(sorted(index for height in cut for index in rows[height]))

    @cached_property
    def choices(self) -> Mapping[int, Sequence[str]]:
        """By operation, the names of the other kernels that can do it and make the host work no longer, where there are some."""
        found: dict[int, Sequence[str]] = {}
        for index, (bound, problem) in enumerate(zip(self.region.operations, self.problems, strict=True)):
            given = self.region.alone(bound)
            able = [each for each in able_kernels(self.machine, self.kernels, bound.operation, [], given) if each.kernel.name != problem.kernel.name]
            others = [each.kernel.name for each in able if host_cycles(each, given) <= host_cycles(problem, given) and tile_fits(each)]
            if others:
                found[index] = others
        return found

    def planner(self, draft: Draft) -> Planner:
        """Plans of the draft. Drafts share the tiles of equal operations and the times of equal stretches.

        Raises UserError E1402 and E1403 for an order in which the operations cannot run."""
        self._check(draft.order)
        kernels = dict(draft.kernels)
        operations = tuple(
            replace(bound, kernel=kernels[index]) if index in kernels else bound
            for index, bound in ((index, self.region.operations[index]) for index in draft.order)
        )
        return Planner(
            self.machine, self.kernels, replace(self.region, operations=operations), self.options, draft.order, self.clock, tuple(_stretches(draft)),
            dict(draft.tiles), frozenset(draft.backward),
        )  # fmt: skip

    def _check(self, order: tuple[int, ...]) -> None:
        place = {index: number for number, index in enumerate(order)}
        names = [bound.operation.name for bound in self.region.operations]
        if sorted(order) != list(range(len(names))):
            raise fail("E1402", f"a draft has {len(order)} operations, and the region {len(names)}, each once")
        early = next((edge for edge in self.graph.edges if place[edge[0]] > place[edge[1]]), None)
        if early is not None:
            raise fail("E1403", f"a draft runs '{names[early[1]]}' before '{names[early[0]]}', whose result it reads")

    @cached_property
    def clock(self) -> StretchClock:
        """Times of stretches, and tiles, that all drafts share."""
        return (self.options.clocks or Clocks()).of(self.machine, self.options.contexts, self.options.timed)


def _stretches(draft: Draft) -> Iterator[range]:
    """Where the operations of a draft that may share loops stand in its order. Raises UserError E1402 where others stand between them."""
    for members in draft.together:
        if not adjacent(members, draft.order):
            raise fail("E1402", f"a draft has {len(members)} operations together, and others between them")
        first = min(map(draft.order.index, members))
        yield range(first, first + len(members))
