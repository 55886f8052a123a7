"""Runs a kernel between two other operations of one program, and compares with the operations' meaning.

A kernel by itself starts with registers that no instruction has latched, reads what the host wrote and stores what the host reads. Between others it
finds what the one before it latched, and tensors that never leave the chip.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from toolchain.abi.dram_map import Shape
from toolchain.operations.library import Kinds
from toolchain.operations.operation import PICTURE_AXES, Operation
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import UserError, fail
from toolchain.verify.compare import told_difference
from toolchain.verify.group_check import find_maker
from toolchain.verify.part_check import random_results
from toolchain.verify.random_operation import draw_operation

TRIES = 20
"""Random operations that are drawn for one that reads a tensor of the right shape."""
NOT_TOGETHER = ("E1003", "E1004", "E1007", "E1008")
"""Codes of operations that have no kernel beside each other, or no layout or room."""
OPTIONS = (Options(contexts=1, grouped=False), Options(contexts=1, grouped=False, resident=False))
"""With every tensor on chip that finds room there, and with none."""


def check_in_chain(problem: Problem, kinds: Kinds, rng: np.random.Generator) -> int:
    """How many programs were run; 0 where no other operation makes what it reads or reads what it makes, or no tiles of all fit.

    Raises UserError E1305 for another result, and all that a program that breaks the machine's rules raises."""
    kernels = {name: kernel for name, kernel in load_kernels(problem.machine).items() if not kernel.passed} | {problem.kernel.name: problem.kernel}
    own, names = problem.operation, sorted({kernel.computes for kernel in kernels.values()})
    maker = find_maker(problem.machine, names, kinds, own.input(own.kind.data[0]), rng)
    reader = _reader(problem, names, kinds, rng)
    stored = bool(rng.integers(2))
    for before, behind in ((maker, reader), (None, reader), (maker, None)):  # one may have no kernel, and some layouts the host alone writes
        region = _region(problem, before, behind, stored)
        ran = sum(_ran(problem, kernels, region, options, rng) for options in OPTIONS) if len(region.operations) > 1 else 0
        if ran:
            return ran
    return 0


def _region(problem: Problem, maker: Operation | None, reader: Operation | None, stored: bool) -> Region:
    """The operation behind one that makes its first operand, and before one that reads its result. stored: the host reads that result too."""
    own, tensors, bound = problem.operation, dict[str, Shape](), list[Bound]()
    first, *others = own.kind.data
    if maker is not None:
        tensors |= {f"m_{name}": Shape(*maker.input(name)) for name in maker.kind.data}
        bound.append(Bound(maker, {**{name: f"m_{name}" for name in maker.kind.data}, "y": first}))
    tensors |= {name: Shape(*own.input(name)) for name in (first, *others)} | {"y": Shape(*own.output)}
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


def _ran(problem: Problem, kernels: Mapping[str, Kernel], region: Region, options: Options, rng: np.random.Generator) -> int:
    """1, or 0 where no tiles of all operations fit."""
    try:
        compiled = compile_region(problem.machine, kernels, region, options)
    except UserError as error:
        if error.diagnostics[0].code in NOT_TOGETHER:
            return 0
        raise
    _compare(problem, region, compiled, rng)
    return 1


def _compare(problem: Problem, region: Region, compiled: CompiledRegion, rng: np.random.Generator) -> None:
    for _, found, wanted in random_results(compiled, rng):
        if not np.array_equal(found, wanted):
            kinds = ", ".join(each.operation.kind.name for each in region.operations)
            told = told_difference(wanted, found, found != wanted)
            raise fail("E1305", f"kernel '{problem.kernel.name}' {told}, in a program of {kinds}", problem.kernel.span)
