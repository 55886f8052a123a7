"""A residual block's addition follows its convolution, a pool both halves of one: the program is quicker for it, and exact."""

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
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.model.quantisation import Numerics

MACHINE = load_machine("dpuv3", overrides={"BANK_PORTS": "0", "MISC_ROWS": "4"})
"""Where units do not hold each other up, so that steps side by side pay."""
KERNELS = load_kernels(MACHINE)
WIDE, NARROW = (4, 512, 7, 7), (4, 128, 7, 7)


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
