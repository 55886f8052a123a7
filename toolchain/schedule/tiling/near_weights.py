"""Weights that wait in a memory that streams share: the first load of each tile brings it there on its way, further ones find it there, so weights
pass DRAM once however often their tiles are loaded (Zhao et al. 2023, section 4.4).

Neighbouring operations have different rooms, so that one need not wait for the last loads of the one before.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from toolchain.schedule.kernels.kernel import NEAR, Tensor, Waits, place_named
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import tensor_packing
from toolchain.schedule.tiling.step_cost import step_transfers, tile_frame
from toolchain.schedule.tiling.tile_table import tile_names
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.model import Machine

AT_A_TIME = 2
"""Tiles that wait at a time: one is loaded while the next one comes."""


def waiting(problem: Problem) -> Iterator[tuple[Tensor, Waits]]:
    """The tensors that could wait, each with where."""
    return ((tensor, tensor.waits) for tensor in problem.kernel.tensors if tensor.waits and problem.loads(tensor.name))


def is_near(problem: Problem, tensor: str) -> bool:
    """Whether a tensor waits."""
    return bool(problem.numbers.get(f"{tensor}_near"))


def with_room(problem: Problem, tensor: str, first: int, size: int) -> Problem:
    """The operation with a tensor that waits in this room."""
    return replace(problem, numbers={**problem.numbers, f"{tensor}_near": 1, f"{tensor}_near_base": first, f"{tensor}_near_size": size})


def without_room(problem: Problem, tensor: str) -> Problem:
    """The operation with a tensor that is read from DRAM for each load."""
    return replace(problem, numbers={**problem.numbers, **{f"{tensor}_{end}": value for end, value in NEAR.items()}})


def near_rooms(problem: Problem) -> dict[str, tuple[int, int]]:
    """By tensor that waits, the first element of its room and how many that has."""
    names = [tensor.name for tensor, _ in waiting(problem) if is_near(problem, tensor.name)]
    return {name: (problem.numbers[f"{name}_near_base"], problem.numbers[f"{name}_near_size"]) for name in names}


def reloads(problem: Problem, tiling: Tiling, tensor: str) -> bool:
    """Whether some tiles of a tensor are loaded several times: a loop that it does not depend on runs outside one that it does."""
    by = place_named(problem.kernel.places, tensor).by
    moving = [name for name in (*tiling.order, *(d.name for d in problem.kernel.reductions)) if tiling.sizes[name] < problem.extents[name]]
    last = max((number for number, name in enumerate(moving) if name in by), default=-1)
    return any(name not in by for name in moving[:last])


def whole_size(problem: Problem, tensor: Tensor, waits: Waits) -> int:
    """Elements of the memory that a tensor takes as a whole."""
    return tensor_packing(problem.machine, tensor, problem.numbers).bytes // problem.machine.memory[waits.memory].element.bytes


def near_size(problem: Problem, tiling: Tiling, by: str, whole: int, streams: int) -> int:
    """Elements of the memory that wait at a time. by: the dimension that is the first of the tensor's layout. whole: its `whole_size`. streams: that
    share the tiles, and are at different ones."""
    moving = [name for name in tiling.order if tiling.sizes[name] < problem.extents[name]]
    if streams > 1 or moving[:1] != [by] or whole % problem.extents[by]:
        return whole
    return min(AT_A_TIME * tiling.sizes[by] * (whole // problem.extents[by]), whole)


def bringing_cycles(problem: Problem, tiling: Tiling, tensor: str) -> float:
    """Cycles that first loads of all tiles take of the port that they need longest, beyond those of further ones: streams load in turn, so that the
    ports bound them."""
    step, names = problem.loads(tensor), {name: np.array([size], np.int64) for name, size in tiling.sizes.items()}
    assert step is not None
    costs = list[Mapping[str, float]]()
    for first in (0, 1):
        own = replace(problem, numbers={**problem.numbers, f"{tensor}_near_first": first})
        frame = tile_frame(own, tile_names(own, names))
        costs.append({name: float(cycles[0]) for name, cycles in step_transfers(own, step, frame).items()})
    by = place_named(problem.kernel.places, tensor).by
    tiles = math.prod(-(-problem.extents[name] // tiling.sizes[name]) for name in by)
    return tiles * max((cycles - costs[0].get(name, 0.0) for name, cycles in costs[1].items()), default=0.0)


def room_start(machine: Machine, memory: str, weights: int) -> int:
    """The first element of the room for weights, which is the memory's end."""
    return machine.memory[memory].bytes // machine.memory[memory].element.bytes - weights
