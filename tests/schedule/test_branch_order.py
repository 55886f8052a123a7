"""A pool runs beside the longest convolution of the other branches, before its own reader, and the schedule says so."""

from dataclasses import replace

import numpy as np

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.made_regions import expected
from toolchain.abi.dram_map import Shape
from toolchain.emulator.engines import engine_named
from toolchain.schedule.branch_order import branch_order
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

MACHINE = load_machine("dpuv3")
SIZE = (1, 32, 28, 28)


def block() -> Region:
    """Three branches of one tensor: a 1x1 and a 5x5 convolution, a 3x3, and a pool before a 1x1 convolution."""
    stem, one, wide, other, last = (
        replace(convolution(SIZE, (32, k, k), seed, 200, pads=(k // 2,) * 4), name=name)
        for seed, (name, k) in enumerate({"stem": 1, "one": 1, "wide": 5, "other": 3, "last": 1}.items())
    )
    pool = made.max_pool("pool", SIZE, made.Window((3, 3), pads=(1, 1, 1, 1)))
    bound = (
        Bound(stem, {"x": "in", "y": "x"}), Bound(one, {"x": "x", "y": "a"}), Bound(wide, {"x": "a", "y": "b"}),
        Bound(other, {"x": "x", "y": "c"}), Bound(pool, {"x": "x", "y": "p"}), Bound(last, {"x": "p", "y": "d"}),
    )  # fmt: skip
    return Region("block", dict.fromkeys(("in", "x", "a", "b", "c", "p", "d"), Shape(*SIZE)), ("in",), ("b", "c", "d"), bound, {})


def order_on(machine: Machine) -> list[int]:
    region, kernels = block(), load_kernels(machine)
    problems = [choose_kernel(machine, kernels, bound.operation) for bound in region.operations]
    return branch_order(region, problems)


def test_the_pool_stands_before_the_longest() -> None:
    assert order_on(MACHINE) == [0, 1, 4, 2, 3, 5]


def test_one_unit_for_all_work_leaves_the_order() -> None:
    assert order_on(load_machine("vta")) == [0, 1, 2, 3, 4, 5]


def test_the_schedule_names_operations_as_the_region_has_them() -> None:
    region = block()
    compiled = compile_region(MACHINE, load_kernels(MACHINE), region)
    scheduled = [operation.operation for group in compiled.schedule.groups for operation in group.operations]
    assert scheduled == [0, 1, 4, 2, 3, 5]
    inputs = {"in": np.random.default_rng(0).integers(-128, 128, SIZE, np.int8)}
    state = compiled.state(inputs)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    wanted = expected(region, inputs, MACHINE.quantisation or Numerics())
    for name in region.outputs:
        np.testing.assert_array_equal(compiled.result(state, name), wanted[name])
