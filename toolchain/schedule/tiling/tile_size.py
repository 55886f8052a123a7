"""One tile of one operation: whether a kernel allows it, and the room that it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tile_limits import tile_faults
from toolchain.schedule.tiling.tile_table import tile_names
from toolchain.spec.arrays import Ints, evaluate_arrays
from toolchain.spec.evaluate import constant
from toolchain.spec.reasons import text_of
from toolchain.spec.render import unparse


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
