"""Weights that wait in a memory that streams share: each tile is brought there once, and loads find it there, so weights pass DRAM once however often
their tiles are loaded (Zhao et al. 2023, section 4.4).

Neighbouring operations have different rooms, so that one need not wait for the last loads of the one before.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from toolchain.schedule.kernels.kernel import Tensor, Waits, place_named
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Need, share_room, tensor_packing
from toolchain.schedule.tiling.step_cost import step_transfers, tile_frame
from toolchain.schedule.tiling.tile_table import sizes_along, tile_names
from toolchain.schedule.tiling.tiles import Planned, Tiling
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine

Best = Callable[[Problem, int], Tiling]
"""The best tiles of an operation that so many streams share. Raises UserError E1004 where nothing fits."""
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
    return _in_turn(problem, by, tiling.sizes[by], whole) if streams == 1 and _is_outermost(problem, tiling, by) else whole


def _is_outermost(problem: Problem, tiling: Tiling, name: str) -> bool:
    """Whether the loop over a dimension is the first of those that have several turns."""
    return next((other for other in tiling.order if tiling.sizes[other] < problem.extents[other]), "") == name


def _in_turn(problem: Problem, by: str, size: int, whole: int) -> int:
    """As `near_size`, where tiles of this size come one after the other."""
    extent = problem.extents[by]
    return whole if whole % extent else min(AT_A_TIME * size * (whole // extent), whole)


def bringing_cycles(problem: Problem, tiling: Tiling, tensor: str) -> float:
    """Cycles that bringing all tiles takes of the port that it needs longest: streams do it in turn, so that the ports bound it."""
    step, names = problem.loads(tensor), {name: np.array([size], np.int64) for name, size in tiling.sizes.items()}
    assert step is not None
    own = replace(problem, numbers={**problem.numbers, f"{tensor}_near_brings": 1})
    costs = step_transfers(own, step, tile_frame(own, tile_names(own, names)))
    by = place_named(problem.kernel.places, tensor).by
    tiles = math.prod(-(-problem.extents[name] // tiling.sizes[name]) for name in by)
    return tiles * max((float(cycles[0]) for cycles in costs.values()), default=0.0)


def cycles_with_bringing(problem: Problem, tiling: Tiling, tensor: str, by: str) -> float:
    """Cycles of an operation whose tiles wait: where blocks of the dimension `by` come one after the other, each is brought during the one before;
    else nothing surely hides it."""
    brought = bringing_cycles(problem, tiling, tensor)
    if not _is_outermost(problem, tiling, by):
        return tiling.estimate + brought
    return max(tiling.estimate, brought) + brought / -(-problem.extents[by] // tiling.sizes[by])


def room_start(machine: Machine, memory: str, weights: int) -> int:
    """The first element of the room for weights, which is the memory's end."""
    return machine.memory[memory].elements - weights


@dataclass(frozen=True)
class Offer:
    """An operation with weights that wait. size: of their room. gain: cycles by the estimates, with those that bringing the weights takes."""

    tensor: str
    problem: Problem
    tiling: Tiling
    size: int
    gain: float


def best_offer(best: Best, planned: Planned, streams: int, weights: int) -> Offer | None:
    """The quickest way for an operation alone, if there is one that is quicker than without.

    best: finds tiles. streams: that share the operation's. weights: elements of the room for the weights of all operations."""
    return max(_offers(best, planned, streams, weights), key=lambda offer: offer.gain, default=None)


def _offers(best: Best, planned: Planned, streams: int, weights: int) -> Iterator[Offer]:
    problem, tiling = planned
    for tensor, waits in waiting(problem):
        if not reloads(problem, tiling, tensor.name):
            continue
        near, whole = with_room(problem, tensor.name, 0, 1), whole_size(problem, tensor, waits)
        for own in [near, *(_outermost(near, waits.by, whole, weights) if streams == 1 else ())]:
            other = _fitting(best, own, streams)
            if other is None or other.estimate >= tiling.estimate or (size := near_size(near, other, waits.by, whole, streams)) > weights:
                continue
            cycles = cycles_with_bringing(near, other, tensor.name, waits.by)
            if cycles < tiling.estimate:
                yield Offer(tensor.name, problem, replace(other, estimate=cycles), size, tiling.estimate - cycles)


def _outermost(problem: Problem, by: str, whole: int, weights: int) -> Iterator[Problem]:
    """The operation with each size of a dimension as its outermost loop, for those of which tiles in turn have room."""
    dimension = next(d for d in problem.kernel.tile if d.name == by)
    for size in sizes_along(problem, dimension) if problem.slab is None else ():
        if _in_turn(problem, by, size, whole) <= weights:
            yield replace(problem, slab=(by, size))


def _fitting(best: Best, problem: Problem, streams: int) -> Tiling | None:
    """The best tiles; None where nothing fits."""
    try:
        return best(problem, streams)
    except UserError as error:
        if error.diagnostics[0].code != "E1004":
            raise
        return None


def accepted(offers: Mapping[int, Offer], start: int, weights: int) -> dict[int, Planned]:
    """By operation, those offers that have room beside the ones that gain more. start: the first element of the room for all of them, which has
    `weights`."""
    taken, places = dict[str, Need](), dict[str, int]()
    for index in sorted(offers, key=lambda index: (-offers[index].gain, index)):
        needs = {**taken, str(index): Need(offers[index].size, index, index + 1)}
        offsets, top = share_room(needs, 1)
        if top <= weights:
            taken, places = needs, offsets
    found = {int(name): offset for name, offset in places.items()}
    return {
        index: (with_room(own.problem, own.tensor, start + found[index], own.size), own.tiling) for index, own in offers.items() if index in found
    }
