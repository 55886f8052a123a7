"""A pool runs beside the longest convolution of the other branches, before its own reader, and the schedule says so. An average moves to the
pool unit where convolutions of other branches run meanwhile, and the program that follows is exact."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import toolchain
from tests.graph.onnx_builder import model, save
from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.made_regions import expected
from toolchain.abi.dram_map import Shape
from toolchain.emulator.engines import engine_named
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.unit_balance import branch_order, relieved
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

MACHINE = load_machine("dpuv3")
SIZE = (1, 32, 28, 28)

RELIEF_SIZE = (4, 32, 28, 28)


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


def layer(name: str, kernel: int) -> Operation:
    return replace(convolution(RELIEF_SIZE, (32, kernel, kernel), kernel, 200, pads=(kernel // 2,) * 4), name=name)


def average(multiply: int = 7) -> Operation:
    return made.average_pool("mean", RELIEF_SIZE, made.Window((3, 3), pads=(1, 1, 1, 1)), multiply, made.Requantise(6))


def region(machine: Machine, beside: int, mean: Operation) -> Region:
    """A convolution, beside it an average and a 1x1 convolution. beside: the first one's kernel size, 0 without it. Kernels are chosen."""
    chain = (Bound(layer("stem", 1), {"x": "in", "y": "x"}), Bound(mean, {"x": "x", "y": "p"}), Bound(layer("last", 1), {"x": "p", "y": "b"}))
    bound = (chain[0], Bound(layer("beside", beside), {"x": "x", "y": "a"}), *chain[1:]) if beside else chain
    names = ("in", "x", "a", "p", "b") if beside else ("in", "x", "p", "b")
    kernels = load_kernels(machine)
    chosen = tuple(replace(each, kernel=choose_kernel(machine, kernels, each.operation).kernel.name) for each in bound)
    return Region("block", dict.fromkeys(names, Shape(*RELIEF_SIZE)), ("in",), ("a", "b") if beside else ("b",), chosen, {})


FREE = {"BANK_PORTS": "0", "MISC_ROWS": "4"}
"""Where units do not hold each other up."""


@pytest.mark.parametrize(
    ("overrides", "beside", "multiply", "moved"),
    [
        (FREE, 5, 7, {2: "mean_pool"}),
        (FREE, 1, 7, {}),
        (FREE, 0, 7, {}),
        (FREE, 5, 9, {}),
        (FREE | {"ASSUMED": "refuse"}, 5, 7, {}),
        ({}, 5, 7, {}),
    ],
    ids=["beside much work", "beside too little", "alone", "a multiplier that the unit lacks", "assumptions refused", "ports that both units need"],
)
def test_an_average_moves(overrides: dict[str, str], beside: int, multiply: int, moved: dict[int, str]) -> None:
    machine = load_machine("dpuv3", overrides=overrides)
    assert relieved(machine, load_kernels(machine), region(machine, beside, average(multiply))) == moved


def test_a_machine_with_one_unit_for_all_work_moves_no_operation() -> None:
    machine = load_machine("vta")
    assert relieved(machine, load_kernels(machine), region(machine, 5, average())) == {}


def test_an_average_whose_neighbours_are_stored_otherwise_stays() -> None:
    machine = load_machine("dpuv3", overrides=FREE)
    block, kernels = region(machine, 5, average()), load_kernels(machine)
    plain = next(layout for layout in machine.layouts if layout.name == kernels["mean_pool"].tensors[0].layout)
    machine = replace(machine, layouts=(*machine.layouts, replace(plain, name="other")))
    other = replace(kernels["mean_pool"], tensors=tuple(replace(tensor, layout="other") for tensor in kernels["mean_pool"].tensors))
    assert relieved(machine, kernels, block) == {2: "mean_pool"}
    assert relieved(machine, {**kernels, "mean_pool": other}, block) == {}


GREEDY = Options(search="greedy")


def test_what_moves_is_exact_and_quicker() -> None:
    machine = load_machine("dpuv3", overrides=FREE)
    kernels, before = load_kernels(machine), region(machine, 5, average())
    kernel = relieved(machine, kernels, before)[2]
    after = replace(before, operations=tuple(replace(b, kernel=kernel) if b.operation.name == "mean" else b for b in before.operations))
    inputs = {"in": np.random.default_rng(0).integers(-128, 128, RELIEF_SIZE, np.int8)}
    wanted, found = expected(before, inputs, machine.quantisation or Numerics()), compile_region(machine, kernels, after, GREEDY)
    state = found.state(inputs)
    engine_named("fast")(found.program, state, found.checked.order)
    for name in after.outputs:
        np.testing.assert_array_equal(found.result(state, name), wanted[name])
    assert found.cycles < compile_region(machine, kernels, before, GREEDY).cycles


def inception(folder: Path) -> Path:
    """A block of three branches as ONNX, of which one begins with an average."""
    rng, node, (_, channels, *size) = np.random.default_rng(3), helper.make_node, RELIEF_SIZE
    weights = {name: (rng.normal(size=(32, channels, k, k)) / (k * 6)).astype(np.float32) for name, k in (("w1", 1), ("w2", 5), ("w3", 3), ("w4", 1))}
    nodes = [
        node("Conv", ["x", "w1"], ["stem"], "stem"),
        node("Conv", ["stem", "w2"], ["a"], "five", pads=[2, 2, 2, 2]),
        node("Conv", ["stem", "w3"], ["b"], "three", pads=[1, 1, 1, 1]),
        node("AveragePool", ["stem"], ["mean"], "mean", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        node("Conv", ["mean", "w4"], ["c"], "one"),
        node("Concat", ["a", "b", "c"], ["y"], "together", axis=1),
    ]
    return save(model(nodes, {"x": [1, channels, *size]}, {"y": [1, 96, *size]}, weights), folder)


def test_a_build_moves_it_and_says_that_it_is_assumed(tmp_path: Path) -> None:
    built = toolchain.compile(inception(tmp_path), "dpuv3", place="all", params=FREE, folder=tmp_path / "build")
    assert built.verify().data["exact"]
    assert "POOL.pool_type" in built.summary
    refused = toolchain.compile(inception(tmp_path), "dpuv3", place="all", params=FREE | {"ASSUMED": "refuse"}, folder=tmp_path / "refused")
    assert "POOL" not in refused.summary
    assert built.figures["time"]["cycles"] < refused.figures["time"]["cycles"]
