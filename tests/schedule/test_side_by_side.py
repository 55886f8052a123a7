"""A convolution and a pool that hand a tensor over in DRAM: at once, exact, and each with room of its own."""

from dataclasses import replace

import numpy as np
import pytest

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.made_regions import expected
from toolchain.abi.dram_map import Shape
from toolchain.emulator.engines import engine_named
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.options import Options
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.side_by_side import run_side_by_side
from toolchain.schedule.tile_choice import TileChoice
from toolchain.spec.model.quantisation import Numerics

MACHINE = load_machine("dpuv3", overrides={"BANK_PORTS": "0", "MISC_ROWS": "4"})
"""Where units do not hold each other up, so that steps side by side pay."""
KERNELS = load_kernels(MACHINE)


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
