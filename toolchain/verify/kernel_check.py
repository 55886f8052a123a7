"""Runs a machine's kernels on random operations with random tiles, small ones among them, and compares with the operation's own meaning."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.checks import check_program
from toolchain.emulator.engines import engine_named
from toolchain.graph.numerics import Numerics
from toolchain.graph.requantisation import LONGEST
from toolchain.operations.ending import by_channel, zero_names
from toolchain.operations.kind import UNIT, OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.numbers import complete
from toolchain.operations.operation import Operation, make_operation, picture_of
from toolchain.schedule.compile import Compiled, emit_alone, pack_tensors
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.placement.dram_map import host_axes
from toolchain.schedule.placement.storage import layout_of
from toolchain.schedule.selection import images_per_run
from toolchain.schedule.stray_accesses import check_buffers
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine

Array = NDArray[Any]
SIZES = (1, 2, 3, 5, 7, 9, 16, 17, 33)
"""Extents that are drawn: corners of blocks, and sizes that divide into none."""
TRIES = 3000
"""Random operations that are drawn for each that a kernel shall compute."""
MOST_STEPS = 300
"""Tiles of one program; tilings of more are passed over, so that a check takes seconds."""
MOST_MACS = 1 << 24


@dataclass(frozen=True)
class KernelChecked:
    """computed: operations that ran and were equal. refused: those that the kernel's conditions do not admit, or that no tile fits.

    tilings: programs that were run.
    """

    kernel: str
    operation: str
    computed: int
    refused: int
    tilings: int


def check_kernel(machine: Machine, kernel: Kernel, kinds: Kinds, count: int = 6, seed: int = 0) -> KernelChecked:
    """Raises UserError E1305 for a result that differs, with the numbers and the tile, E1306 where no random operation passes the kernel's
    conditions, and all that a program that breaks the machine's rules raises."""
    rng, computed, refused, tilings = np.random.default_rng(seed), 0, 0, 0
    for problem in _problems(machine, kernel, kinds[kernel.computes], rng):
        ran = sum(1 for tiling in _tilings(problem, rng) if _compare(problem, tiling, rng)) if problem else 0
        if not ran:
            refused += 1
            if refused > TRIES * count:
                break
            continue
        tilings += ran
        computed += 1
        if computed == count:
            break
    if not computed:
        raise fail("E1306", f"none of {refused} random operations passes the conditions of kernel '{kernel.name}'", kernel.span)
    return KernelChecked(kernel.name, kernel.computes, computed, refused, tilings)


def _problems(machine: Machine, kernel: Kernel, kind: OperationKind, rng: np.random.Generator) -> Iterator[Problem | None]:
    """Random operations for the kernel without end, None for one that it does not compute."""
    while True:
        operation = draw_operation(machine, kind, rng)
        try:
            yield None if operation is None else state_problem(machine, kernel, operation)
        except UserError:
            yield None


def draw_operation(machine: Machine, kind: OperationKind, rng: np.random.Generator) -> Operation | None:
    """A random operation of a kind; None for numbers that do not fit each other."""
    drawn = {extent: int(rng.choice(SIZES)) for each in kind.operands for extent in each.extents}
    for number in (number for each in kind.attributes for number in each.numbers):
        drawn[number] = kind.defaults.get(number, 1) if rng.integers(2) else int(rng.integers(0 if kind.defaults.get(number) == 0 else 1, 4))
    if rng.integers(4) == 0:  # windows of the whole picture are a corner of their own
        drawn |= {small: drawn[large] for small, large in zip([*kind.meaning.over.values()][::-1], kind.operands[0].extents[::-1], strict=False)}
    drawn["batch"] = images_per_run(machine) * int(rng.integers(1, 3 if images_per_run(machine) == 1 else 2))
    numerics = machine.quantisation or Numerics()
    try:
        numbers = complete(kind, {**drawn, **{e: 1 for e in drawn if e in kind.fixed}})
        numbers |= _ends(kind, numerics, rng)
        arrays = {name: _array(kind, name, numbers, numerics, rng) for name in kind.known} | _channels(kind, numerics, numbers, rng)
        if kind.form == "table":
            arrays["table"] = rng.integers(-128, 128, 256).astype(numerics.stored)
        pictures = {name: picture_of([numbers[extent] for extent in kind.operand[name].extents]) for name in kind.data}
        operation = make_operation(kind, "checked", pictures, arrays, numbers)
    except UserError:
        return None
    return operation if operation.reach(numerics.reach) < 1 << (numerics.accumulator_bits - 1) and operation.macs <= MOST_MACS else None


def _ends(kind: OperationKind, numerics: Numerics, rng: np.random.Generator) -> dict[str, int]:
    """Requantisation: factors around the size of sums, limits of no activation and of ReLU; stored integers that stand for zero."""
    held = numerics.activation
    zeros = {name: int(rng.choice([held.low, held.high, int(rng.integers(held.low, held.high + 1))])) for name in zero_names(kind, numerics)}
    if not kind.scaled:
        return zeros
    multipliers = {name: 1 << int(rng.integers(0, 4)) for name in kind.multipliers}
    unit = {UNIT: 1 << int(rng.integers(0, 8))} if kind.unit else {}
    low = int(rng.choice([-128, 0])) if not numerics.zero_points else int(rng.choice([held.low, zeros["zero_y"]]))
    ends = {"low": low, "high": held.high if numerics.zero_points else 127, **zeros, **multipliers, **unit}
    if not by_channel(kind, numerics):
        ends |= {name: int(value[0]) for name, value in _scales(numerics, 1, rng).items()}
    return ends


def _scales(numerics: Numerics, count: int, rng: np.random.Generator) -> dict[str, NDArray[np.int32]]:
    """Random scales of sums, by the names of an operation's numbers."""
    shift = rng.integers(0, 12, count)
    if numerics.form == "float32":
        return {"scale_bits": np.ldexp(rng.random(count) + 0.5, -shift).astype(np.float32).view(np.int32)}
    if numerics.form == "power_of_two":
        return {"shift": shift.astype(np.int32)}
    multiplier = rng.integers(1 << (numerics.multiplier_bits - 1), 1 << numerics.multiplier_bits, count)
    return {"multiplier": multiplier.astype(np.int32), "shift": np.clip(shift + numerics.multiplier_bits, *_shifts(numerics)).astype(np.int32)}


def _shifts(numerics: Numerics) -> tuple[int, int]:
    return numerics.shift.low, min(numerics.shift.high, LONGEST)


def _channels(kind: OperationKind, numerics: Numerics, numbers: Mapping[str, int], rng: np.random.Generator) -> dict[str, Array]:
    """Scales per channel, where the machine has them."""
    if not by_channel(kind, numerics):
        return {}
    count = numbers[kind.operand[kind.bias].extents[0]]
    names = {"multiplier": "multipliers", "shift": "shifts", "scale_bits": "scales"}
    found = {names[name]: array for name, array in _scales(numerics, count, rng).items()}
    return {name: array.view(np.float32) if name == "scales" else array for name, array in found.items()}


def _array(kind: OperationKind, name: str, numbers: Mapping[str, int], numerics: Numerics, rng: np.random.Generator) -> Array:
    shape = [numbers[extent] for extent in kind.operand[name].extents]
    if name != kind.bias:
        return rng.integers(-128, 128, shape).astype(np.int8)
    stored = rng.integers(max(numerics.bias.low, -9000), min(numerics.bias.high, 9000), shape).astype(np.int32)
    shift = numerics.bias_shift
    return stored << int(rng.integers(shift.low, min(shift.high, shift.low + 6) + 1)) if shift.high else stored


def _tilings(problem: Problem, rng: np.random.Generator) -> list[Tiling]:
    """The best, those with the fewest tiles and with the most that are not too many, and one at random; with one slot of each place and with two."""
    found: list[Tiling] = []
    for contexts in (1, 2):
        try:
            ranked = [tiling for tiling in rank_tilings(problem, contexts, 1 << 30) if _tiles(problem, tiling) <= MOST_STEPS]
        except UserError:
            continue
        if ranked:
            counts = [_tiles(problem, tiling) for tiling in ranked]
            corners = (0, counts.index(min(counts)), counts.index(max(counts)), int(rng.integers(len(ranked))))
            found += [ranked[number] for number in dict.fromkeys(corners)]
    return found


def _tiles(problem: Problem, tiling: Tiling) -> int:
    return math.prod(-(-problem.extents[name] // size) for name, size in tiling.sizes.items())


def _compare(problem: Problem, tiling: Tiling, rng: np.random.Generator) -> bool:
    """Runs one program. Raises UserError E1305 for another result."""
    operation, machine = problem.operation, problem.machine
    numerics = machine.quantisation or Numerics()
    low, high = numerics.activation.low, numerics.activation.high
    inputs = {name: rng.integers(low, high + 1, operation.input(name)).astype(numerics.stored) for name in operation.kind.data}
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    state = compiled.state(**{name: array.transpose(_axes(compiled, name)) for name, array in inputs.items()})
    checked = check_program(compiled.program, state)
    check_buffers(machine, [compiled.rooms], compiled.origins, checked.footprints)
    engine_named("fast")(compiled.program, state, checked.order)
    found = compiled.result(state, "y").transpose(np.argsort(_axes(compiled, "y")))
    wanted = operation.run(inputs, numerics)
    if not np.array_equal(found, wanted):
        raise _differs(problem, tiling, found, wanted)
    return True


def _axes(compiled: Compiled, name: str) -> tuple[int, ...]:
    """The order in which a tensor's layout has the axes of a picture."""
    tensor = next(each for each in compiled.problem.kernel.tensors if each.name == name)
    return host_axes(layout_of(compiled.problem.machine, tensor))


def _differs(problem: Problem, tiling: Tiling, found: Array, wanted: Array) -> UserError:
    place = [int(index) for index in np.argwhere(found != wanted)[0]]
    numbers = ", ".join(f"{name} {problem.operation.numbers[name]}" for name in problem.operation.kind.numbers)
    tile = ", ".join(f"{name} {size}" for name, size in tiling.sizes.items())
    told = f"makes {found[tuple(place)]} at {place}, not {wanted[tuple(place)]}; {int((found != wanted).sum())} of {wanted.size} elements differ"
    return fail("E1305", f"kernel '{problem.kernel.name}' {told}, in tiles of {tile}, for {numbers}", problem.kernel.span)
