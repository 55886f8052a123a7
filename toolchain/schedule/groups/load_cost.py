"""Cycles that a group's loads of rows keep each unit."""

from collections.abc import Sequence

import numpy as np

from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.rows.row_load import RowLoad
from toolchain.schedule.rows.row_step import row_names
from toolchain.schedule.tiling.step_cost import step_cycles, tile_frame

Busy = dict[str, float]
"""Cycles by unit."""


def load_cycles(group: RowGroup, problems: Sequence[Problem]) -> list[Busy]:
    """By load of the group, estimated as one full slab after the other. problems: of its operations, with the tensors on chip."""
    return [_cycles(problems[load.member], load) for load in group.loads]


def _cycles(problem: Problem, load: RowLoad) -> Busy:
    place, step = problem.kernel.place(load.place), problem.filling(load.place)
    assert step is not None
    numbers = {**problem.numbers, **problem.extents, **row_names(problem, place, range(min(load.size, load.height)))}
    names = {name: np.array([value], np.int64) for name, value in numbers.items()}
    found = step_cycles(problem, step, names, tile_frame(problem, names))
    return {unit: float(cycles[0]) * load.height / load.size for unit, cycles in found.items()}
