"""The tiles that a kernel allows for an operation, and the costs of their steps: found once for all that differ in their room on chip alone."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from toolchain.schedule.kernels.kernel import Dimension, Items, Kernel, KernelKey, Step, formulas
from toolchain.schedule.kernels.problem import Problem, largest_window
from toolchain.schedule.tiling.step_cost import fitting, step_cycles, step_instructions, tile_faults, tile_frame
from toolchain.spec.arrays import Ints, Reals, evaluate_arrays, rows_of
from toolchain.spec.evaluate import align, constant
from toolchain.spec.expr import Expr, Name, walk
from toolchain.spec.reasons import text_of
from toolchain.spec.render import unparse

Columns = Mapping[str, Ints]
Key = tuple[str, tuple[tuple[int, int], ...], tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, int] | None]


@dataclass(frozen=True)
class StepCosts:
    """By step of a problem. cycles: by unit, how long one run of the step takes, on average over full tiles and those that are left at the end of
    each dimension, in runs for full tiles. instructions: int64 [n], of one run."""

    cycles: list[dict[str, Reals]]
    instructions: list[Ints]

    def taken(self, rows: Ints) -> "StepCosts":
        """The costs of these tiles."""
        return StepCosts([{unit: cycles[rows] for unit, cycles in costs.items()} for costs in self.cycles], [n[rows] for n in self.instructions])


def step_costs(problem: Problem, sizes: Columns, names: Columns, trips: Mapping[str, Reals], even: bool) -> StepCosts:
    """names: `tile_names` of the sizes. trips: `trips_of` them; where those of another operation of a group, its tiles are all taken for full ones.
    even: all tiles are taken for full ones, as streams share them."""
    count, cut = len(next(iter(sizes.values()))), [] if even else _left_over(problem, sizes, trips)
    parts = [names, *(tile_names(problem, {**rows_of(sizes, rows), d.name: left}) for d, rows, left in cut)]
    (full, *rests), instructions = _costs_of(problem, parts)
    mean = [{unit: cycles.astype(np.float64) for unit, cycles in costs.items()} for costs in full]
    for (d, rows, _), last in zip(cut, rests, strict=True):
        whole_trips = trips[d.name][rows]
        for step, own, costs, rest in zip(problem.steps, mean, full, last, strict=True):
            for unit in costs if _is_cut(problem, step, d) else ():
                whole = costs[unit][rows]
                own[unit][rows] += (np.floor(whole_trips) * whole + rest[unit]) / whole_trips - whole
    return StepCosts(mean, [each[:count] for each in instructions])


def _left_over(problem: Problem, sizes: Columns, trips: Mapping[str, Reals]) -> list[tuple[Dimension, Ints, Ints]]:
    """The dimensions that some tiles do not divide: the rows of those tiles, and the units that are left at the end."""
    found: list[tuple[Dimension, Ints, Ints]] = []
    for d in problem.kernel.tile:
        left = problem.extents[d.name] % sizes[d.name]
        rows = np.flatnonzero((left > 0) & (trips[d.name] == problem.extents[d.name] / sizes[d.name]))
        found += [(d, rows, left[rows])] if len(rows) else []
    return found


def _costs_of(problem: Problem, parts: Sequence[Columns]) -> tuple[list[list[dict[str, Ints]]], list[Ints]]:
    """Cycles by part, by step and by unit, and the instructions of each step for the tiles of all parts. parts: `tile_names` of tiles of any sizes.

    All are evaluated at once: an expression takes about as long for some hundred rows as for one.
    """
    counts = [len(next(iter(part.values()))) for part in parts]
    names = {name: np.concatenate([part[name] for part in parts]) if np.ndim(value) else value for name, value in parts[0].items()}
    frame = tile_frame(problem, names)
    cycles = [step_cycles(problem, step, names, frame) for step in problem.steps]
    instructions = [step_instructions(problem, step, frame) for step in problem.steps]
    ranges = [slice(stop - count, stop) for count, stop in zip(counts, np.cumsum(counts).tolist(), strict=True)]
    return [[{unit: column[rows] for unit, column in costs.items()} for costs in cycles] for rows in ranges], instructions


def _is_cut(problem: Problem, step: Step, d: Dimension) -> bool:
    """Whether a step runs for a part of the dimension; those that load do where their place's tiles differ."""
    if step.kind == "load":
        return d.name in problem.kernel.place(step.place).by
    return step.kind == "compute" or d in problem.kernel.loops


@dataclass(frozen=True)
class TileTable:
    """Every tile that a kernel allows for an operation: sizes, `tile_names` and the room of each place, as columns."""

    problem: Problem
    sizes: dict[str, Ints]
    names: dict[str, Ints]
    rooms: dict[str, Ints]
    found: dict[bool, StepCosts]

    def among(self, sizes: Mapping[str, Collection[int]] | None) -> tuple[dict[str, Ints], dict[str, Ints], dict[str, Ints], Ints | None]:
        """Sizes, names and rooms of the tiles with one of these sizes along each dimension, and which they are; all of them, and None, without."""
        if sizes is None:
            return self.sizes, self.names, self.rooms, None
        chosen = np.flatnonzero(np.logical_and.reduce([np.isin(own, [*sizes[name]]) for name, own in self.sizes.items()]))
        return rows_of(self.sizes, chosen), rows_of(self.names, chosen), rows_of(self.rooms, chosen), chosen

    def costs(self, even: bool) -> StepCosts:
        """even: as `step_costs` has it."""
        if even not in self.found:
            self.found[even] = step_costs(self.problem, self.sizes, self.names, trips_of(self.problem, self.sizes), even)
        return self.found[even]


def tile_table(problem: Problem) -> TileTable:
    """The table of an operation, found once for all that have the same `tile_key`."""
    return _table(_Same(problem.without_weights(), tile_key(problem)))


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A problem, equal to all for the same kernel with the same key. Machines and kernels never change, and are compared by identity."""

    problem: Problem
    key: Key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return NotImplemented
        own, its = self.problem, other.problem
        return own.machine is its.machine and own.kernel is its.kernel and self.key == other.key

    def __hash__(self) -> int:
        return hash((id(self.problem.machine), id(self.problem.kernel), self.key))


@lru_cache(maxsize=512)
def _table(same: _Same) -> TileTable:
    problem = same.problem
    return TileTable(problem, *legal_tiles(problem, grid_of(problem)), {})


def tile_key(problem: Problem) -> Key:
    """Kernel, steps, and every number that sizes and costs name; not the room on chip."""
    wanted, kernel = _wanted(KernelKey(problem.kernel)), problem.kernel
    numbers = {name: value for name, value in problem.numbers.items() if name in wanted}
    numbers |= {f"{name}_all": extent for name, extent in problem.extents.items()}
    for place, kept in problem.kept.items():
        numbers |= {f"{place}_{name}": value for name, value in kept.names.items()}
    steps = tuple((step.span.line, step.span.column) for step in problem.steps)
    return kernel.name, steps, tuple(sorted(numbers.items())), tuple(problem.kept), problem.slab


@lru_cache(maxsize=256)
def _wanted(key: KernelKey) -> frozenset[str]:
    """The names that sizes and costs of a kernel depend on."""
    kernel = key.kernel
    sized = (e.id for expr in _sizing(kernel) for e in walk(expr) if isinstance(e, Name))
    return frozenset(sized).union(*(formula.names for code in codes_of(kernel) for formula in formulas(code)))


def _sizing(kernel: Kernel) -> Iterator[Expr]:
    """All expressions that the search evaluates."""
    yield from kernel.where
    for d in kernel.tile:
        yield from (e for e in (d.most, d.multiple) if e is not None)
    for w in kernel.windows:
        yield from (w.stride, w.reach, w.before, w.extent, w.step)
    for p in kernel.places:
        yield p.size
        yield from p.names.values()
    for c in kernel.constants:
        yield from c.over.values()
    for s in kernel.steps:
        if s.cycles is not None:
            yield s.cycles


def codes_of(kernel: Kernel) -> Iterator[Items]:
    """The instructions of the steps that are no templates, by step: the search derives their cycles and limits."""
    yield from (step.code for step in kernel.steps if not isinstance(step.code, str))


def legal_tiles(problem: Problem, sizes: Mapping[str, Ints]) -> tuple[dict[str, Ints], dict[str, Ints], dict[str, Ints]]:
    """Sizes that the kernel allows, the names that expressions may use of them, and the room of each place."""
    names = tile_names(problem, sizes)
    legal = allowed(problem, names)
    rooms = rooms_of(problem, names)
    return rows_of(sizes, legal), rows_of(names, legal), rows_of(rooms, legal)


def allowed(problem: Problem, names: Mapping[str, Ints]) -> NDArray[np.bool_]:
    """bool [n]: whether the kernel's conditions and the fields of its instructions allow tiles. names: of n full tiles (`tile_names`)."""
    legal = np.ones(len(next(iter(names.values()))), np.bool_)
    for condition in problem.kernel.where:
        legal &= evaluate_arrays(condition, names) != 0
    return legal & fitting(problem, names)


def rooms_of(problem: Problem, names: Mapping[str, Ints]) -> dict[str, Ints]:
    """int64 [n] by place: elements of one slot; none where a tensor stays on chip, or another operation of the group has left a tile."""
    return {p.name: evaluate_arrays(p.size, names) * (p.name not in problem.elsewhere) for p in problem.kernel.places}


def grid_of(problem: Problem, count: int | None = None) -> dict[str, Ints]:
    """int64 [n] for each dimension: every combination of sizes that cut an extent as evenly as a number of tiles, and the multiple
    that a size must be of, allow; of the `count` smallest sizes, where that is stated."""
    sizes = (sizes_along(problem, d)[:count] for d in problem.kernel.tile)
    grid = np.meshgrid(*(np.array(each, np.int64) for each in sizes), indexing="ij")
    return {d.name: part.ravel() for d, part in zip(problem.kernel.tile, grid, strict=True)}


def sizes_along(problem: Problem, d: Dimension) -> list[int]:
    """The sizes of a dimension to try, ascending."""
    extent = problem.extents[d.name]
    most = constant(d.most, problem.numbers) if d.most else extent
    unit = constant(d.multiple, problem.numbers) if d.multiple else 1
    slab = [problem.slab[1]] if problem.slab and problem.slab[0] == d.name else even_sizes(extent)
    return [s for s in sorted({min(align(size, unit), extent) for size in slab}) if s <= most]


def even_sizes(extent: int) -> list[int]:
    """ceil(extent / k) for every k: those of the first few k, and the small sizes that some k gives."""
    k = np.arange(1, math.isqrt(extent) + 2)
    large = -(-extent // k)
    return sorted({*large.tolist(), *k[-(-extent // large) == k].tolist()})


def tile_names(problem: Problem, sizes: Mapping[str, Ints]) -> dict[str, Ints]:
    """Everything that sizes and costs may name, for full tiles: columns, the sizes first; a number that is the same for all tiles has no axes."""
    names = {**sizes, **{name: value for name, value in problem.arrays.items() if name not in sizes}}
    for w in problem.kernel.windows:
        names |= largest_window(w, sizes[w.of], problem.arrays)
    return names


def trips_of(problem: Problem, sizes: Mapping[str, Ints]) -> dict[str, Reals]:
    """By dimension, how many full tiles the extent is."""
    return {name: problem.extents[name] / size for name, size in sizes.items()}


def size_limits(problem: Problem, dimension: str) -> tuple[int, int]:
    """The most units of a dimension that a tile may have, and the number that they must be a multiple of unless it has all."""
    found = next(d for d in problem.kernel.tile if d.name == dimension)
    extent = problem.extents[dimension]
    most = min(constant(found.most, problem.numbers), extent) if found.most else extent
    return most, constant(found.multiple, problem.numbers) if found.multiple else 1


@dataclass(frozen=True)
class TileSize:
    """sizes: units of every dimension in a full tile."""

    problem: Problem
    sizes: Mapping[str, int]

    @cached_property
    def _names(self) -> dict[str, Ints]:
        return tile_names(self.problem, {name: np.array([size], np.int64) for name, size in self.sizes.items()})

    @property
    def broken(self) -> str:
        """The first condition of the kernel that does not hold, or field that does not hold its value; empty where there is none."""
        for that in self.problem.kernel.where:
            if not evaluate_arrays(that, self._names)[0]:
                return f"it wants {unparse(that)}"
        return next((text_of(fault.reason) for fault in tile_faults(self.problem, self._names)), "")

    @cached_property
    def rooms(self) -> dict[str, int]:
        """Elements of one slot of each place that needs any, in each bank of a pool."""
        places = (p for p in self.problem.kernel.places if p.name not in self.problem.elsewhere)
        rooms = {p.name: int(evaluate_arrays(p.size, self._names)[0]) for p in places}
        return {name: room for name, room in rooms.items() if room}

    def count(self, place: str) -> int:
        """How many different tiles a place ever holds."""
        return prod(-(-self.problem.extents[name] // self.sizes[name]) for name in self.problem.kernel.place(place).by)
