"""Checks of a kernel among other operations against the operations' meaning: in groups that pass tiles, between two others of one program, and
groups of a region's operations one by one.

A kernel by itself starts with registers that no instruction has latched, reads tensors that the host wrote and stores those that it reads. Between
others it finds the registers that the one before it latched, and tensors that never leave the chip.

Xing et al. (2019), section 3, check every fused operation before the network; here the emulator does, on whole tensors.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from toolchain.abi.dram_map import Shape
from toolchain.emulator import engine_named
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.operation import PICTURE_AXES, Operation, Picture
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.copies import ONE
from toolchain.schedule.form.plan import Cut, Plan, Schedule, ScheduledOperation, make_schedule, tile_cuts
from toolchain.schedule.form.realise import realise
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.options import Options
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.placement.on_chip_allocation import Residents, in_dram
from toolchain.schedule.placement.shared_memory import SharedSlots, room_left
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Bound, Region, part_of_region
from toolchain.schedule.search.draft import Space
from toolchain.schedule.search.prices import Prices
from toolchain.schedule.tiling.near_weights import near_size, room_start, waiting, whole_size
from toolchain.schedule.tiling.tile_group import TileGroup, make_tile_group
from toolchain.schedule.tiling.tile_search import GroupTiles, Tiled, find_tiles
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.compare import differing_bits, distant, told_difference
from toolchain.verify.random_operation import draw_operation, random_halves
from toolchain.verify.situations import Seen, of_tiling, rarest_tiling

MOST_STEPS = 300
"""Tiles of one program."""
TRIES = 20
"""Random operations that are drawn for one that makes a tensor of the right shape."""
TILINGS = 64
"""Random tilings beside tensors on chip of which one is chosen."""
NOT_TOGETHER = ("E1003", "E1004", "E1007", "E1008")
"""Codes of operations that have no kernel beside each other, or no layout or room."""
NO_ROOM = ("E1405", "E1406")
"""Codes of tiles that find no room beside tensors on chip."""
OPTIONS = (Options(contexts=1, grouped=False), Options(contexts=1, grouped=False, resident=False))
"""With every tensor on chip that finds room there, and with none."""


def check_groups(space: Space, groups: Sequence[Sequence[int]], seed: int = 0) -> int:
    """How many programs were run: equal groups share one. Raises UserError E1305 for an element that is wrong, and all of `compile_region`, whose
    checks find races and deadlocks."""
    prices, done = Prices(space), set[tuple[object, ...]]()
    for number, members in enumerate(groups):
        key = prices.key(tuple(members))
        if key not in done:
            done.add(key)
            _check(space, part_of_region(space.region, members), np.random.default_rng((seed, number)))
    return len(done)


def random_results(compiled: CompiledRegion, rng: np.random.Generator) -> Iterator[tuple[str, Array, Array]]:
    """A compiled region run by the fast engine on random stored integers: by output, its name, the result, and the operations' meaning."""
    region, numerics = compiled.region, compiled.program.machine.quantisation or Numerics()
    low, high = numerics.activation.low, numerics.activation.high
    if numerics.floats is not None:
        inputs: dict[str, Array] = {name: random_halves(region.tensors[name], rng, numerics.floats.format, corner=True) for name in region.inputs}
    else:
        inputs = {name: rng.integers(low, high + 1, region.tensors[name]).astype(numerics.stored) for name in region.inputs}
    state, wanted = compiled.state(inputs), region_values(region, inputs, numerics)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    yield from ((name, compiled.result(state, name), wanted[name]) for name in region.outputs)


def region_values(region: Region, inputs: Mapping[str, Array], numerics: Numerics) -> dict[str, Array]:
    """Every tensor of a region by the operations' meaning, stored integers [batch, channels, height, width]. inputs: by name."""
    known = dict(inputs)
    for bound in region.operations:
        operands = {name: _value(region, known, bound.tensors[name]) for name in bound.operation.kind.data}
        known[bound.tensors["y"]] = bound.operation.run(operands, numerics)
    return known


def _value(region: Region, known: Mapping[str, Array], name: str) -> Array:
    """A tensor, or its parts side by side, or its range of a larger one."""
    if name in known:
        return known[name]
    if parts := sorted((region.slices[part].channel, part) for part in region.parts.get(name, ())):
        return np.concatenate([_value(region, known, part) for _, part in parts], axis=1)
    own = region.slices[name]
    return _value(region, known, own.parent)[:, own.channel : own.channel + region.tensors[name].channels]


def _check(space: Space, region: Region, rng: np.random.Generator) -> None:
    compiled = compile_region(space.machine, space.kernels, region, Options(search="greedy"))
    for name, found, wanted in random_results(compiled, rng):
        if differing_bits(wanted, found):
            place = tuple(int(index) for index in np.argwhere(distant(wanted, found, None))[0])
            names = ", ".join(f"'{bound.operation.name}'" for bound in region.operations)
            raise fail("E1305", f"{names} as a group make {found[place]} at {list(place)} of '{name}', not {wanted[place]}")


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
    if differing_bits(wanted, found):
        place = [int(index) for index in np.argwhere(distant(wanted, found, None))[0]]
        tile = ", ".join(f"{name} {size}" for name, size in schedule.groups[0].operations[-1].tile)
        told = f"makes {found[tuple(place)]} at {place}, not {wanted[tuple(place)]}, in tiles of {tile}"
        raise fail("E1305", f"kernel '{problem.kernel.name}' {told}, after '{region.operations[0].operation.kind.name}'", problem.kernel.span)


"""Random operations that are drawn for one that reads a tensor of the right shape."""


def check_in_chain(problem: Problem, kinds: Kinds, rng: np.random.Generator, seen: Seen) -> int:
    """How many programs were run; 0 where no other operation makes its operand or reads its result, or no tiles of all fit. Another operation makes
    any one of its operands: each has loads of its own.

    Raises UserError E1305 for another result, and all that a program that breaks the machine's rules raises."""
    kernels = {name: kernel for name, kernel in load_kernels(problem.machine).items() if not kernel.passed} | {problem.kernel.name: problem.kernel}
    own, names = problem.operation, sorted({kernel.computes for kernel in kernels.values()})
    operand = own.kind.data[int(rng.integers(len(own.kind.data)))]
    maker = find_maker(problem.machine, names, kinds, own.input(operand), rng)
    reader = _reader(problem, names, kinds, rng)
    stored = bool(rng.integers(2))
    for before, behind in ((maker, reader), (None, reader), (maker, None)):  # one may have no kernel, and some layouts the host alone writes
        region = _chain(problem, operand, before, behind, stored)
        ran = sum(_ran(problem, kernels, region, options, rng, seen) for options in OPTIONS) if len(region.operations) > 1 else 0
        if ran:
            return ran
    return 0


def _chain(problem: Problem, operand: str, maker: Operation | None, reader: Operation | None, stored: bool) -> Region:
    """The operation behind one that makes this operand, and before one that reads its result. stored: the host reads that result too."""
    own, tensors, bound = problem.operation, dict[str, Shape](), list[Bound]()
    if maker is not None:
        tensors |= {f"m_{name}": Shape(*maker.input(name)) for name in maker.kind.data}
        bound.append(Bound(maker, {**{name: f"m_{name}" for name in maker.kind.data}, "y": operand}))
    tensors |= {name: Shape(*own.input(name)) for name in own.kind.data} | {"y": Shape(*own.output)}
    bound.append(Bound(own, {**{name: name for name in own.kind.data}, "y": "y"}, kernel=problem.kernel.name))
    if reader is not None:
        tensors |= {f"r_{name}": Shape(*reader.input(name)) for name in reader.kind.data[1:]} | {"r_y": Shape(*reader.output)}
        bound.append(Bound(reader, {reader.kind.data[0]: "y", **{name: f"r_{name}" for name in reader.kind.data[1:]}, "y": "r_y"}))
    made = {each.tensors["y"] for each in bound}
    inputs = tuple(name for name in tensors if name not in made)
    outputs = ("r_y", "y") if reader and stored else ("r_y",) if reader else ("y",)
    return Region("checked", tensors, inputs, outputs, tuple(bound), {})


def _reader(problem: Problem, names: Sequence[str], kinds: Kinds, rng: np.random.Generator) -> Operation | None:
    """A random operation of these kinds whose first operand is such a picture as the problem's operation makes; None where none was found."""
    given = problem.operation.output
    for _ in range(TRIES):
        kind = kinds[str(rng.choice(names))]
        data = kind.operand[kind.data[0]]
        extents = {extent: given[axis] for axis, extent in zip(PICTURE_AXES[len(data.axes)], data.extents, strict=True)}
        found = draw_operation(problem.machine, kind, rng, extents, corner=bool(rng.integers(2)))
        if found is not None and found.input(data.name) == given:
            return found
    return None


def _ran(problem: Problem, kernels: Mapping[str, Kernel], region: Region, options: Options, rng: np.random.Generator, seen: Seen) -> int:
    """How many programs were run: with the tiles of the search, and where tensors stay on chip, with others of the kernel; 0 where no tiles of all
    operations fit."""
    try:
        compiled = compile_region(problem.machine, kernels, region, options)
    except UserError as error:
        if error.diagnostics[0].code in NOT_TOGETHER:
            return 0
        raise
    _compare_chain(problem, region, compiled, rng)
    other = _otherwise(problem, kernels, compiled, rng, seen) if options.resident else None
    try:
        again = compile_region(problem.machine, kernels, region, options, other) if other else None
    except UserError as error:
        if error.diagnostics[0].code in (*NOT_TOGETHER, *NO_ROOM):
            return 1
        raise
    if again is None:
        return 1
    _compare_chain(problem, region, again, rng)
    return 2


def _otherwise(problem: Problem, kernels: Mapping[str, Kernel], compiled: CompiledRegion, rng: np.random.Generator, seen: Seen) -> Schedule | None:
    """The schedule with other tiles of the checked kernel, beside the same tensors on chip: of some random ones, those that bring about the most
    situations that were not seen; weights may wait for their loads. None where no others fit."""
    schedule = compiled.schedule
    plan = realise(problem.machine, kernels, compiled.region, schedule)
    own = next(number for number, each in enumerate(plan.region.operations) if each.kernel == problem.kernel.name)
    kept = plan.problems[own]
    try:
        ranked = [each for each in rank_tilings(kept, 1, 1 << 30) if all_tiles(kept, each) <= MOST_STEPS]
    except UserError:
        return None
    seen.update(of_tiling(kept, plan.tilings[own]))
    drawn: list[int] = rng.permutation(len(ranked))[:TILINGS].tolist()
    chosen = rarest_tiling(kept, [ranked[number] for number in drawn], seen)
    if chosen is None:
        return None
    near, weights = _near(kept, chosen, plan.shared, rng)
    found = _with_tiles(schedule, plan.order[own], tile_cuts(kept, chosen), near)
    return replace(found, copies=schedule.copies._replace(weights=weights))


def _near(problem: Problem, tiling: Tiling, shared: SharedSlots, rng: np.random.Generator) -> tuple[dict[str, tuple[int, int]], int]:
    """By tensor whose tiles wait in a memory that streams share, its room there; and elements of all rooms. One operation by itself has none. As
    often, and where they have no room beside these buffers, none wait."""
    rooms, top, able = dict[str, tuple[int, int]](), 0, list(waiting(problem))
    for tensor, waits in able:
        size = near_size(problem, tiling, waits.by, whole_size(problem, tensor, waits), 1)
        rooms[tensor.name], top = (top, size), top + size
    memories = {waits.memory for _, waits in able}
    if len(memories) != 1 or rng.integers(2) or top > room_left(problem.machine, min(memories), shared, ONE):
        return {}, 0
    start = room_start(problem.machine, min(memories), top)
    return {name: (start + first, size) for name, (first, size) in rooms.items()}, top


def _with_tiles(schedule: Schedule, operation: int, tile: tuple[Cut, ...], near: Mapping[str, tuple[int, int]]) -> Schedule:
    """The schedule with these tiles of one operation, whose slots find places of their own, and these rooms of weights that wait."""

    def changed(each: ScheduledOperation) -> ScheduledOperation:
        return replace(each, tile=tile, slots={}, within={}, near=near) if each.operation == operation else each

    return replace(schedule, groups=tuple(replace(group, operations=tuple(map(changed, group.operations))) for group in schedule.groups))


def all_tiles(problem: Problem, tiling: Tiling) -> int:
    """How many a program writes down, those of sums among them."""
    return math.prod(-(-problem.extents[name] // size) for name, size in tiling.sizes.items())


def _compare_chain(problem: Problem, region: Region, compiled: CompiledRegion, rng: np.random.Generator) -> None:
    for _, found, wanted in random_results(compiled, rng):
        if differing_bits(wanted, found):
            kinds = ", ".join(each.operation.kind.name for each in region.operations)
            told = told_difference(wanted, found, distant(wanted, found, None))
            raise fail("E1305", f"kernel '{problem.kernel.name}' {told}, in a program of {kinds}", problem.kernel.span)
