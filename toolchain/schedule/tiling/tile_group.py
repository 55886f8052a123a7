"""A group of operations over one loop of tiles: the last one's tiles decide, and each other member makes the part that its reader needs, derived
from the reader's index expression."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from toolchain.operations.operation import PICTURE_AXES
from toolchain.operations.reads import positions
from toolchain.schedule.kernels.kernel_reader import PICTURE
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import layout_of
from toolchain.schedule.regions.lowering import block_of
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tiling.order import Rooted, Tile, names_of_tile, tiles_over
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.arrays import Ints
from toolchain.spec.evaluate import constant

Each = TypeVar("Each")


@dataclass(frozen=True)
class Reach:
    """dimension: of the reader. first, stop: int64 [its extent], units of the maker's dimension that each of its units reads."""

    dimension: str
    first: Ints
    stop: Ints

    def part(self, first: int, size: int) -> tuple[int, int]:
        """First unit and units of the maker for a tile of the reader."""
        here = slice(first, first + size)
        start = int(self.first[here].min())
        return start, int(self.stop[here].max()) - start

    def largest(self, size: int) -> int:
        """The most units of the maker that a tile of so many needs."""
        starts = np.arange(0, len(self.first), size)
        return int((np.maximum.reduceat(self.stop, starts) - np.minimum.reduceat(self.first, starts)).max())

    def most(self, size: int) -> int:
        """The most units of the maker that so many units in a row need, wherever they begin: tiles that other members need overlap."""
        size = min(size, len(self.first))
        firsts, stops = (np.lib.stride_tricks.sliding_window_view(each, size) for each in (self.first, self.stop))
        return int((stops.max(axis=1) - firsts.min(axis=1)).max())

    def covers(self, extent: int) -> bool:
        """Whether every unit of the maker is read."""
        joined = (self.first[1:] <= self.stop[:-1]).all() and (self.stop > self.first).all()
        return bool(joined) and (int(self.first[0]), int(self.stop[-1])) == (0, extent)


Reaches = Mapping[str, Reach]
"""By dimension of the maker."""


def units_of(problem: Problem) -> dict[int, tuple[str, int]] | None:
    """By axis of the result as a picture, the dimension that cuts it and the elements of a unit: a block of the layout in which the result is stored.

    None for a kernel that does not say which dimensions cut the axes, or has others.
    """
    kernel = problem.kernel
    if {d.name for d in kernel.loops} != set(kernel.axes.values()):
        return None
    layout = layout_of(problem.machine, next(t for t in kernel.tensors if t.name == "y"))
    found = {PICTURE.index(axis): (name, block_of(layout, axis)) for axis, name in kernel.axes.items()}
    whole = all(-(-problem.operation.output[axis] // unit) == problem.extents[name] for axis, (name, unit) in found.items())
    return found if whole else None


def find_reaches(maker: Problem, reader: Problem, operand: str) -> dict[str, Reach] | None:
    """None where tiles of the reader do not need whole units of the maker, all of them together."""
    found = dict(touched(maker, reader, operand))
    exact = found and all(whole and reach.covers(maker.extents[name]) for name, (reach, whole) in found.items())
    return {name: reach for name, (reach, _) in found.items()} if exact else None


def touched(maker: Problem, reader: Problem, operand: str) -> Iterator[tuple[str, tuple[Reach, bool]]]:
    """By dimension of the maker, the units that the reader touches, and whether it begins with whole ones; none where kernels do not say, or where
    stages say how the reader computes."""
    made, read = units_of(maker), units_of(reader)
    if made is None or read is None or made.keys() != read.keys() or reader.operation.kind.meaning.of is None:
        return
    for axis, (name, unit) in made.items():
        dimension, own = read[axis]
        first, stop = _reach(reader, operand, axis, own)
        yield name, (Reach(dimension, first // unit, -(-stop // unit)), not (first % unit).any())


def _reach(reader: Problem, operand: str, axis: int, unit: int) -> tuple[Ints, Ints]:
    """Elements of the operand along an axis, from the first one and before the last, for each unit of the reader. Rows of a sequence are one wide."""
    kind = reader.operation.kind
    result, data = (PICTURE_AXES[len(axes)] for axes in (kind.result.axes, kind.operand[operand].axes))
    if axis not in result or axis not in data:
        return np.zeros(1, np.int64), np.ones(1, np.int64)
    found = positions(kind, reader.operation.numbers, list(kind.result.axes)[result.index(axis)])[operand][data.index(axis)]
    starts = np.arange(0, len(found.first), unit)
    return np.minimum.reduceat(found.first, starts), np.maximum.reduceat(found.stop, starts)


class Pass(NamedTuple):
    """A tensor that a member (`maker`) leaves on chip for a later one, tile by tile."""

    maker: int
    reader: int
    operand: str


@dataclass(frozen=True)
class TileGroup:
    """operations: of the region, by number. problems: theirs. passes: by maker, one for each member but the last. reaches: of each of them.
    hidden: tensors that are never in DRAM."""

    operations: range
    problems: Sequence[Problem]
    passes: Sequence[Pass]
    reaches: Sequence[Reaches]
    hidden: frozenset[str]

    def tiles(self, sizes: Mapping[str, int], order: Sequence[str]) -> list[list[Tile]]:
        """By turn of the loop and member. sizes, order: of the last member's tiles."""
        last = self.problems[-1]
        return [self._turn(tile) for tile in tiles_over(last, last.kernel.loops, sizes, order)]

    def _turn(self, tile: Tile) -> list[Tile]:
        return list(self.derived(tile, lambda reach, part: reach.part(*part)))

    def sizes(self, last: Mapping[str, int]) -> list[Mapping[str, int]]:
        """The full tile of each member, dimensions that reduce left out. last: sizes of the last one's."""
        return self.derived({d.name: last[d.name] for d in self.problems[-1].kernel.loops}, Reach.largest, Reach.most)

    def derived(
        self, last: Mapping[str, Each], step: Callable[[Reach, Each], Each], inner: Callable[[Reach, Each], Each] | None = None
    ) -> list[Mapping[str, Each]]:
        """By member and dimension, a property of tiles. last: that of the last member's, from which those of the others follow by `step`, or by
        `inner` where a reader's tiles follow themselves, and so may overlap."""
        found = [last] * len(self.problems)
        for maker, reader, _ in reversed(self.passes):
            own = step if inner is None or reader == len(self.problems) - 1 else inner
            found[maker] = {name: own(reach, found[reader][reach.dimension]) for name, reach in self.reaches[maker].items()}
        return found

    def order_of(self, member: int, order: Sequence[str]) -> tuple[str, ...]:
        """A loop order of the last member in the dimensions of another one."""
        axes = {name: axis for axis, name in self.problems[-1].kernel.axes.items()}
        return tuple(self.problems[member].kernel.axes[axes[name]] for name in order if name in axes)

    @cached_property
    def roots(self) -> Rooted:
        """By place without slots of its own, the place of another member in whose slots it stands."""
        makers = {(p.reader, p.operand): p.maker for p in self.passes}
        found: dict[tuple[int, str], tuple[int, str]] = {}
        for member, problem in enumerate(self.problems):
            for place, operand in problem.kernel.handed.items():
                maker = makers[member, operand]
                found[member, place] = found.get((maker, "y"), (maker, "y"))
        return found

    def shared(self, tilings: Sequence[Tiling]) -> list[Tiling]:
        """The tilings with those places in the slots where they stand."""
        found = list(tilings)
        for (member, place), (root, own) in self.roots.items():
            tiling, slots, room = found[member], found[root].places[own], found[root].room[own]
            found[member] = replace(tiling, places={**tiling.places, place: slots}, room={**tiling.room, place: room})
        return found

    def disagreement(self, turns: Sequence[Sequence[Tile]]) -> str:
        """A place in which a reader would see a tile otherwise than its maker has left it; empty where there is none."""
        seen: set[tuple[int, ...]] = set()
        for tiles in turns:
            for maker, reader, operand in self.passes:
                key = maker, *(size for tile in (tiles[maker], tiles[reader]) for _, size in tile.values())
                if key not in seen:
                    seen.add(key)
                    wrong = self._differs(tiles, maker, reader, operand)
                    if wrong:
                        return wrong
        return ""

    def _differs(self, tiles: Sequence[Tile], maker: int, reader: int, operand: str) -> str:
        made = _names(self.problems[maker], "y", tiles[maker])
        for name in (place for place, passed in self.problems[reader].kernel.handed.items() if passed == operand):
            read = _names(self.problems[reader], name, tiles[reader])
            if read != made:
                return f"'{name}' of '{self.problems[reader].operation.name}' lies otherwise than '{self.problems[maker].operation.name}' leaves it"
        return ""


def make_tile_group(region: Region, operations: range, problems: Sequence[Problem], stored: bool = False) -> TileGroup | str:
    """The group, or why the operations cannot be one. problems: of these operations. stored: every tensor is stored to DRAM as well."""
    passes: list[Pass] = []
    for member, found in enumerate(_passes(region, operations)):
        if member < len(operations) - 1 and (len(found) != 1 or found[0].operand not in problems[found[0].reader].kernel.passed):
            return f"no one operation of the group takes the tiles of '{problems[member].operation.name}' as they stand on chip"
        passes += found
    if aside := next(_read_aside(region, operations), None):
        return aside
    for member, problem in enumerate(problems):
        lost = next((name for name in problem.kernel.passed if not any((p.reader, p.operand) == (member, name) for p in passes)), None)
        if lost or units_of(problem) is None:
            own = f"kernel '{problem.kernel.name}'"
            return f"{own} takes '{lost}' from another operation of its group" if lost else f"{own} does not say which dimension cuts which axis"
    reaches: list[Reaches] = []
    for one in passes:
        found = _checked(problems, one)
        if isinstance(found, str):
            return found
        reaches.append(found)
    made = [operations[one.maker] for one in passes if not stored and not _needed(region, operations[one.maker])]
    hidden = frozenset(region.operations[index].tensors["y"] for index in made)
    return TileGroup(operations, [_unstored(p, region, i, hidden) for p, i in zip(problems, operations, strict=True)], passes, reaches, hidden)


def _passes(region: Region, operations: range) -> Iterator[list[Pass]]:
    """For each member, the readers of its result."""
    tensors = [region.operations[index].tensors for index in operations]
    for maker, made in enumerate(tensors):
        yield [
            Pass(maker, reader, name)
            for reader in range(maker + 1, len(tensors))
            for name, tensor in tensors[reader].items()
            if name != "y" and tensor == made["y"]
        ]


def _read_aside(region: Region, operations: range) -> Iterator[str]:
    """Members that load another member's result from DRAM under another name: its tiles are not there yet."""
    members = [region.operations[index] for index in operations]
    for number, maker in enumerate(members):
        made = maker.tensors["y"]
        for reader in members[number + 1 :]:
            for name, tensor in reader.tensors.items():
                if name != "y" and tensor != made and region.overlap(tensor, made):
                    yield f"'{reader.operation.name}' reads '{tensor}', which '{maker.operation.name}' makes, from DRAM"


def _checked(problems: Sequence[Problem], one: Pass) -> Reaches | str:
    """Reaches of the reader, or why it cannot take tiles from the maker."""
    maker, reader = problems[one.maker], problems[one.reader]
    memory = maker.kernel.place("y").memory
    other = next((p for p in reader.kernel.places if reader.kernel.handed.get(p.name) == one.operand and p.memory != memory), None)
    told = f"'{reader.operation.name}' cannot take the tiles of '{maker.operation.name}'"
    if other is not None:
        return f"{told}: it wants them in '{other.memory}', and they are made in '{memory}'"
    if maker.operation.output != reader.operation.input(one.operand):
        return f"{told}: it reads them in another shape"
    return find_reaches(maker, reader, one.operand) or f"{told}: its own do not need whole blocks of them"


def _needed(region: Region, operation: int) -> bool:
    """Whether an operation's result is needed in DRAM too: it is a result, part of another tensor, or something else reads it."""
    tensor = region.operations[operation].tensors["y"]
    reads = sum(name != "y" and read == tensor for bound in region.operations for name, read in bound.tensors.items())
    return tensor in region.outputs or reads > 1 or tensor in region.slices or any(part.parent == tensor for part in region.slices.values())


def _unstored(problem: Problem, region: Region, operation: int, hidden: frozenset[str]) -> Problem:
    """The problem without the steps that store a tensor that is never in DRAM."""
    if region.operations[operation].tensors["y"] not in hidden:
        return problem
    return replace(problem, steps=tuple(step for step in problem.steps if (step.kind, step.place) != ("store", "y")))


def _names(problem: Problem, place: str, tile: Tile) -> dict[str, int]:
    """The view of a tile in a place."""
    scope = {**problem.numbers, **names_of_tile(problem, tile)}
    return {name: constant(expr, scope) for name, expr in problem.kernel.place(place).names.items()}
