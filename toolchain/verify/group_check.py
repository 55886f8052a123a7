"""Runs a kernel that takes tiles from other operations in a group with random ones, in many tiles, and compares with the operations' meaning."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.dram_map import Shape
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.operation import PICTURE_AXES, Operation, Picture
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.plan import Plan, make_schedule
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.fusion.tile_group import TileGroup, make_tile_group
from toolchain.schedule.fusion.tile_search import GroupTiles, Tiled, find_tiles
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.placement.on_chip_allocation import Residents, in_dram
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine
from toolchain.verify.part_check import random_results
from toolchain.verify.random_operation import draw_operation

MOST_STEPS = 300
"""Tiles of one program."""
TRIES = 20
"""Random operations that are drawn for one that makes a tensor of the right shape."""


def check_in_group(problem: Problem, kinds: Kinds, rng: np.random.Generator) -> int:
    """How many programs were run; 0 where no group could be made. Raises UserError E1305 for another result."""
    machine = problem.machine
    kernels = {name: kernel for name, kernel in load_kernels(machine).items() if name != problem.kernel.name} | {problem.kernel.name: problem.kernel}
    cutting = sorted({kernel.computes for kernel in kernels.values() if kernel.axes and not kernel.passed})
    makers = [find_maker(machine, cutting, kinds, problem.operation.input(name), rng) for name in problem.kernel.passed]
    region = _region(problem, [maker for maker in makers if maker is not None])
    if None in makers or region is None:
        return 0
    try:
        cut = {name: kernel for name, kernel in kernels.items() if kernel.axes}
        problems = [choose_kernel(machine, cut, b.operation, region.alone(b)) for b in region.operations[:-1]]
    except UserError:
        return 0
    group = make_tile_group(region, range(len(region.operations)), [*problems, problem])
    tiles = list(_tilings(group, rng)) if isinstance(group, TileGroup) else []
    for tiled in tiles:
        assert isinstance(group, TileGroup)
        _compare(problem, kernels, region, _schedule(region, group, tiled), rng)
    return len(tiles)


def find_maker(machine: Machine, names: Sequence[str], kinds: Kinds, wanted: Picture, rng: np.random.Generator) -> Operation | None:
    """A random operation of these kinds that makes such a picture; None where none was found."""
    for _ in range(TRIES if names else 0):
        kind = kinds[str(rng.choice(names))]
        found = draw_operation(machine, kind, rng, _extents(kind, wanted))
        if found is not None and found.output == wanted:
            return found
    return None


def _extents(kind: OperationKind, wanted: Picture) -> dict[str, int]:
    """Extents of the operands for such a result: reduced axes are 1, and windows do not move."""
    found = {**{extent: 1 for operand in kind.operands for extent in operand.extents}, **kind.defaults}
    axes, data = PICTURE_AXES[len(kind.result.axes)], kind.operand[kind.data[0]]
    for axis, extent in zip(axes, kind.result.extents, strict=True):
        own = extent if extent in found else data.extents[axes.index(axis)]
        found[own] = wanted[axis]
    return found


def _region(problem: Problem, makers: Sequence[Operation]) -> Region | None:
    """The makers, each of its own inputs, and the operation that takes their results."""
    tensors, bound = dict[str, Shape](), list[Bound]()
    for number, (maker, _) in enumerate(zip(makers, problem.kernel.passed, strict=False)):
        own = {name: f"{name}{number}" for name in maker.kind.data}
        tensors |= {tensor: Shape(*maker.input(name)) for name, tensor in own.items()} | {f"y{number}": Shape(*maker.output)}
        bound.append(Bound(maker, {**own, "y": f"y{number}"}))
    read = {name: f"y{problem.kernel.passed.index(name)}" if name in problem.kernel.passed else name for name in problem.operation.kind.data}
    tensors |= {tensor: Shape(*problem.operation.input(name)) for name, tensor in read.items()} | {"y": Shape(*problem.operation.output)}
    made = {b.tensors["y"] for b in bound}
    inputs = tuple(name for name in tensors if name not in made and name != "y")
    whole = len(bound) == len(problem.kernel.passed)
    return Region("checked", tensors, inputs, ("y",), (*bound, Bound(problem.operation, {**read, "y": "y"})), {}) if whole else None


def _tilings(group: TileGroup, rng: np.random.Generator) -> Iterator[Tiled]:
    """Tilings with the fewest tiles and with the most that are not too many, the best of these and one at random; with one slot and with two."""
    for contexts in (1, 2):
        found = find_tiles(group, contexts)
        if found is not None:
            order = next(iter(islice(found.orders(), int(rng.integers(2)), None)), next(found.orders()))
            counts = _counts(found)
            legal = np.flatnonzero(counts <= MOST_STEPS)
            if len(legal):
                best = legal[np.argmin(found.estimate(order)[legal])]
                chosen = (best, legal[np.argmin(counts[legal])], legal[np.argmax(counts[legal])], rng.choice(legal))
                tiled = (found.tiled(0.0, int(index), order) for index in dict.fromkeys(map(int, chosen)))
                yield from (each for each in tiled if each is not None)


def _counts(found: GroupTiles) -> NDArray[np.int64]:
    """int64 [n]: tiles of all members."""
    each = [math.prod((np.ceil(column) for column in member.trips.values()), start=np.ones(1)) for member in found.members]
    return np.asarray(np.add.reduce(each), np.int64)


def _schedule(region: Region, group: TileGroup, tiled: Tiled) -> Schedule:
    problems, count = group.problems, len(region.operations)
    storage = plan_storage(problems[0].machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    residents = Residents({}, {}, (0,) * count, problems[0].pools)
    dram = in_dram(storage, residents, hidden=group.hidden)
    return make_schedule(problems[0].machine, Plan(region, tuple(range(count)), problems, tiled.tilings, residents, dram, {0: group}))


def _compare(problem: Problem, kernels: Mapping[str, Kernel], region: Region, schedule: Schedule, rng: np.random.Generator) -> None:
    ((_, found, wanted),) = random_results(compile_region(problem.machine, kernels, region, schedule=schedule), rng)
    if not np.array_equal(found, wanted):
        place = [int(index) for index in np.argwhere(found != wanted)[0]]
        tile = ", ".join(f"{name} {size}" for name, size in schedule.groups[0].operations[-1].tile)
        told = f"makes {found[tuple(place)]} at {place}, not {wanted[tuple(place)]}, in tiles of {tile}"
        raise fail("E1305", f"kernel '{problem.kernel.name}' {told}, after '{region.operations[0].operation.kind.name}'", problem.kernel.span)
