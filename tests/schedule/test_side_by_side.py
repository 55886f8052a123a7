"""A pool runs beside the longest convolution of the other branches, before its own reader, and the schedule says so. An average moves to the
pool unit where convolutions of other branches run meanwhile, and the program that follows is exact.

A convolution and a pool that hand a tensor over in DRAM: at once, exact, and each with room of its own. A residual block's addition follows
its convolution, a pool both halves of one: the program is quicker for it, and exact.
"""

from collections.abc import Sequence
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
from toolchain.emulator import engine_named
from toolchain.operations.operation import Operation
from toolchain.schedule import planner as compiler
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.options import Options
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.side_by_side import branch_order, relieved, run_side_by_side
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics

DPUV3 = load_machine("dpuv3")
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


def order_on(machine: Machine, cycles: Sequence[float] = ()) -> list[int]:
    region, kernels = block(), load_kernels(machine)
    problems = [choose_kernel(machine, kernels, bound.operation) for bound in region.operations]
    return branch_order(region, problems, cycles or None)


def test_the_pool_stands_before_the_longest() -> None:
    assert order_on(DPUV3) == [0, 1, 4, 2, 3, 5]


@pytest.mark.parametrize(
    ("cycles", "order"),
    [
        ((10, 10, 30, 20, 15, 10), [0, 1, 3, 4, 2, 5]),  # beside `wide`, which reads another tensor, and after `other`
        ((10, 10, 30, 20, 45, 10), [0, 1, 4, 2, 3, 5]),  # and 15 cycles beside `other`; earlier it would share 20
        ((10, 10, 30, 20, 55, 10), [0, 4, 1, 2, 3, 5]),  # there is not so much work behind `one`
        ((10, 10, 30, 20, 99, 10), [0, 4, 1, 2, 3, 5]),  # as early as it can
    ],
)
def test_the_pool_stands_where_others_read_its_operand_for_the_shortest_time(cycles: tuple[float, ...], order: list[int]) -> None:
    assert order_on(DPUV3, cycles) == order


def test_one_unit_for_all_work_leaves_the_order() -> None:
    assert order_on(load_machine("vta")) == [0, 1, 2, 3, 4, 5]


def test_the_schedule_names_operations_as_the_region_has_them() -> None:
    region = block()
    compiled = compile_region(DPUV3, load_kernels(DPUV3), region, Options(effort=1))  # another order may be quicker
    scheduled = [operation.operation for group in compiled.schedule.groups for operation in group.operations]
    assert scheduled == [0, 1, 3, 4, 2, 5]
    inputs = {"in": np.random.default_rng(0).integers(-128, 128, SIZE, np.int8)}
    state = compiled.state(inputs)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    wanted = expected(region, inputs, DPUV3.quantisation or Numerics())
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


def test_where_ports_are_limited_it_moves_beside_what_reads_another_tensor() -> None:
    kernels = load_kernels(DPUV3)
    _, beside, mean, last = region(DPUV3, 5, average()).operations
    stem, other = replace(_first(), kernel=beside.kernel), replace(beside, tensors={"x": "in", "y": "a"})
    apart = replace(region(DPUV3, 5, average()), operations=(stem, other, mean, last))
    assert relieved(DPUV3, kernels, apart) == {2: "mean_pool"}
    assert relieved(DPUV3, kernels, region(DPUV3, 5, average())) == {}


def _first() -> Bound:
    return region(DPUV3, 0, average()).operations[0]


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
    built = toolchain.compile(inception(tmp_path), "dpuv3", place="all", params=FREE, effort=0, folder=tmp_path / "build")
    assert built.verify().data["exact"]
    assert "POOL.pool_type" in built.summary
    refused = toolchain.compile(inception(tmp_path), "dpuv3", place="all", params=FREE | {"ASSUMED": "refuse"}, effort=0, folder=tmp_path / "refused")
    assert "POOL" not in refused.summary
    assert built.figures["time"]["cycles"] < refused.figures["time"]["cycles"]


MACHINE = load_machine("dpuv3", overrides={"BANK_PORTS": "0", "MISC_ROWS": "4"})
"""Where units do not hold each other up, so that steps side by side pay."""
KERNELS = load_kernels(MACHINE)
WIDE, NARROW = (4, 512, 7, 7), (4, 128, 7, 7)


def large(size: int, channels: int = 32) -> Region:
    """A tensor between two operations of different units that no pool of banks holds."""
    small, wide = (1, 16, size, size), (1, channels, size, size)
    first = replace(convolution(small, (16, 1, 1), 0, 500), name="first")
    conv = replace(convolution(small, (channels, 5, 5), 1, 500, pads=(2, 2, 2, 2)), name="conv")
    pool = made.max_pool("pool", wide, made.Window((2, 2), (2, 2)))
    half = 1, channels, size // 2, size // 2
    last = replace(convolution(half, (16, 1, 1), 2, 500), name="last")
    tensors = {"x": Shape(*small), "s": Shape(*small), "t": Shape(*wide), "p": Shape(*half), "y": Shape(1, 16, *half[2:])}
    bound = (
        Bound(first, {"x": "x", "y": "s"}),
        Bound(conv, {"x": "s", "y": "t"}),
        Bound(pool, {"x": "t", "y": "p"}),
        Bound(last, {"x": "p", "y": "y"}),
    )
    return Region("large", tensors, ("x",), ("y",), bound, {})


def overlap(cycles: list[tuple[float, float]]) -> float:
    """The share of the shorter one's time that both run."""
    (a, b), (c, d) = cycles
    return max(min(b, d) - max(a, c), 0) / min(b - a, d - c)


def test_the_pool_runs_beside_the_convolution_and_is_exact() -> None:
    region = large(200)
    compiled = compile_region(MACHINE, KERNELS, region, Options(grouped=False))
    assert "t" in compiled.map.tensors
    times = compiled.timeline.result
    spans = [(float(times.start[compiled.owner == k].min()), float(times.end[compiled.owner == k].max())) for k in (1, 2)]
    assert overlap(spans) > 0.6
    inputs = {"x": np.random.default_rng(0).integers(-128, 128, tuple(region.tensors["x"]), np.int8)}
    state = compiled.state(inputs)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    assert np.array_equal(compiled.result(state, "y"), expected(region, inputs, MACHINE.quantisation or Numerics())["y"])


def test_sharing_the_memory_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tiles do not keep off the neighbours' tensors by themselves."""
    quick = Options(check=False, grouped=False)
    monkeypatch.setattr("toolchain.schedule.planner._apart", lambda planned, *_: planned)
    beside = compile_region(MACHINE, KERNELS, large(200), quick).cycles
    monkeypatch.setattr("toolchain.schedule.planner.run_side_by_side", lambda *given: given[2])
    assert beside < 0.9 * compile_region(MACHINE, KERNELS, large(200), quick).cycles


def test_a_memory_of_one_pool_is_shared_too() -> None:
    """The second operation may then take all of it, and leave the first without room."""
    kernels = {name: replace(kernel, pools={"fm": 24}) for name, kernel in KERNELS.items()}
    region = large(160, 64)
    compiled = compile_region(MACHINE, kernels, region)
    inputs = {"x": np.random.default_rng(0).integers(-128, 128, tuple(region.tensors["x"]), np.int8)}
    state = compiled.state(inputs)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    assert np.array_equal(compiled.result(state, "y"), expected(region, inputs, MACHINE.quantisation or Numerics())["y"])


def test_operations_of_one_unit_keep_the_whole_memory() -> None:
    machine = load_machine("vta")
    region = large(32)
    problems = [state_problem(machine, load_kernels(machine)[b.operation.kind.name], b.operation) for b in region.operations]
    choice = TileChoice(2, 1)
    planned = [(problem, choice.best(problem)) for problem in problems]
    storage = plan_storage(machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    assert run_side_by_side(region, storage, planned, choice) == planned


"""Where units do not hold each other up, so that steps side by side pay."""


def residual() -> Region:
    """Convolution, convolution, addition of both, convolution: seven rows, so that each reads all of the one before."""
    bound = (
        Bound(replace(convolution(NARROW, (512, 1, 1), 0, 500), name="first"), {"x": "x", "y": "a"}),
        Bound(replace(convolution(WIDE, (512, 1, 1), 1, 500), name="second"), {"x": "a", "y": "b"}),
        Bound(made.add("add", WIDE, 1, 1, made.Requantise(1)), {"x": "b", "z": "a", "y": "s"}),
        Bound(replace(convolution(WIDE, (128, 1, 1), 2, 500), name="last"), {"x": "s", "y": "y"}),
    )
    shapes = {"x": NARROW, "a": WIDE, "b": WIDE, "s": WIDE, "y": NARROW}
    return Region("residual", {name: Shape(*size) for name, size in shapes.items()}, ("x",), ("y",), bound, {})


def pooled() -> Region:
    """A pool between two convolutions, its windows two pixels apart and three wide."""
    given, large, small = (4, 256, 14, 14), (4, 256, 14, 14), (4, 256, 7, 7)
    bound = (
        Bound(replace(convolution(given, (256, 1, 1), 2, 500), name="stem"), {"x": "x", "y": "g"}),
        Bound(replace(convolution(given, (256, 1, 1), 0, 500), name="first"), {"x": "g", "y": "a"}),
        Bound(made.max_pool("pool", large, made.Window((3, 3), (2, 2), (0, 0, 1, 1))), {"x": "a", "y": "p"}),
        Bound(replace(convolution(small, (32, 1, 1), 1, 500), name="last"), {"x": "p", "y": "y"}),
    )
    shapes = {"x": given, "g": given, "a": large, "p": small, "y": (4, 32, 7, 7)}
    return Region("pooled", {name: Shape(*size) for name, size in shapes.items()}, ("x",), ("y",), bound, {})


def tile_of(compiled: CompiledRegion, name: str) -> dict[str, int]:
    found = next(each for group in compiled.schedule.groups for each in group.operations if each.name == name)
    return {cut.dimension: cut.size for cut in found.tile}


@pytest.mark.parametrize(("region", "between"), [(residual(), "add"), (pooled(), "pool")], ids=["residual", "pooled"])
def test_what_follows_is_quicker_and_exact(region: Region, between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_region(MACHINE, KERNELS, region, Options(effort=0))
    inputs = {"x": np.random.default_rng(0).integers(-128, 128, tuple(region.tensors["x"]), np.int8)}
    state = compiled.state(inputs)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    np.testing.assert_array_equal(compiled.result(state, "y"), expected(region, inputs, MACHINE.quantisation or Numerics())["y"])
    monkeypatch.setattr(compiler, "follow_makers", lambda _region, planned, _choice: planned)
    before = compile_region(MACHINE, KERNELS, region, Options(effort=0))
    assert compiled.cycles < before.cycles
    assert tile_of(compiled, between) != tile_of(before, between)


def test_an_addition_comes_in_parts_of_the_channels() -> None:
    assert tile_of(compile_region(MACHINE, KERNELS, residual()), "add")["oc"] < 32


def test_tensors_in_dram_leave_tiles_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(resident=False)
    compiled = compile_region(MACHINE, KERNELS, residual(), options)
    monkeypatch.setattr(compiler, "follow_makers", lambda _region, planned, _choice: planned)
    assert compile_region(MACHINE, KERNELS, residual(), options).schedule == compiled.schedule
