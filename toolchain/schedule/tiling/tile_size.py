"""One tile of one operation: whether a kernel allows it, and what room it takes."""

from collections.abc import Mapping

import numpy as np

from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tiles import tile_names
from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr


def size_limits(problem: Problem, dimension: str) -> tuple[int, int]:
    """The most units of a dimension that a tile may have, and what it must be a multiple of unless it has all."""
    found = next(d for d in problem.kernel.tile if d.name == dimension)
    extent = problem.extents[dimension]
    most = min(constant(found.most, problem.numbers), extent) if found.most else extent
    return most, constant(found.multiple, problem.numbers) if found.multiple else 1


def broken_condition(problem: Problem, sizes: Mapping[str, int]) -> Expr | None:
    """The first condition of the kernel that does not hold for full tiles of these sizes."""
    names = tile_names(problem, _arrays(sizes))
    return next((that for that in problem.kernel.where if not evaluate_arrays(that, names)[0]), None)


def slot_rooms(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """Elements of one slot of each place that needs any, in each bank of a pool."""
    names = tile_names(problem, _arrays(sizes))
    rooms = {p.name: int(evaluate_arrays(p.size, names)[0]) for p in problem.kernel.places if p.name not in problem.kept}
    return {name: room for name, room in rooms.items() if room}


def tile_count(problem: Problem, sizes: Mapping[str, int], place: str) -> int:
    """How many different tiles a place ever holds."""
    count = 1
    for name in next(p for p in problem.kernel.places if p.name == place).by:
        count *= -(-problem.extents[name] // sizes[name])
    return count


def _arrays(sizes: Mapping[str, int]) -> dict[str, Ints]:
    return {name: np.array([size], np.int64) for name, size in sizes.items()}
