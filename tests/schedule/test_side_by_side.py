"""A convolution and a pool that hand a tensor over in DRAM: at once, exact, and each with room of its own. A residual block's addition follows
its convolution, a pool both halves of one: the program is quicker for it, and exact."""

from dataclasses import replace

import numpy as np
import pytest

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.made_regions import expected
from toolchain.abi.dram_map import Shape
from toolchain.emulator.engines import engine_named
from toolchain.schedule import planner as compiler
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.options import Options
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.side_by_side import run_side_by_side
from toolchain.spec.model.quantisation import Numerics

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
    compiled = compile_region(MACHINE, KERNELS, region)
    inputs = {"x": np.random.default_rng(0).integers(-128, 128, tuple(region.tensors["x"]), np.int8)}
    state = compiled.state(inputs)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    np.testing.assert_array_equal(compiled.result(state, "y"), expected(region, inputs, MACHINE.quantisation or Numerics())["y"])
    monkeypatch.setattr(compiler, "follow_makers", lambda _region, planned, _choice: planned)
    before = compile_region(MACHINE, KERNELS, region)
    assert compiled.cycles < before.cycles
    assert tile_of(compiled, between) != tile_of(before, between)


def test_an_addition_comes_in_parts_of_the_channels() -> None:
    assert tile_of(compile_region(MACHINE, KERNELS, residual()), "add")["oc"] < 32


def test_tensors_in_dram_leave_tiles_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(resident=False)
    compiled = compile_region(MACHINE, KERNELS, residual(), options)
    monkeypatch.setattr(compiler, "follow_makers", lambda _region, planned, _choice: planned)
    assert compile_region(MACHINE, KERNELS, residual(), options).schedule == compiled.schedule
