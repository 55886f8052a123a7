"""The room of one tile by hand, and tiles that a kernel does not allow."""

import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.tiling.tile_size import TileSize, size_limits

VTA, DPU = load_machine("vta"), load_machine("dpuv3")
PROBLEM = choose_kernel(VTA, load_kernels(VTA), convolution((1, 20, 9, 9), (32, 3, 3), pads=(1, 1, 1, 1)), ("x",))


def test_rooms_and_counts_by_hand() -> None:
    """Blocks of 16 channels: a window of 3 rows and columns around 5 x 9 results is 7 x 11, and a block of weights has 9 taps."""
    size = TileSize(PROBLEM, {"n": 1, "oc": 1, "oh": 5, "ow": 9, "ic": 2})
    assert {name: size.rooms[name] for name in ("x", "w", "y")} == {"x": 2 * 7 * 11, "w": 1 * 2 * 9, "y": 5 * 9}
    assert {name: size.count(name) for name in ("x", "w", "y")} == {"x": 2, "w": 2, "y": 2 * 2}
    assert size.broken == ""


@pytest.mark.parametrize(("dimension", "limits"), [("n", (1, 1)), ("oh", (9, 1)), ("ic", (2, 1))])
def test_a_tile_has_the_extent_at_most(dimension: str, limits: tuple[int, int]) -> None:
    assert size_limits(PROBLEM, dimension) == limits


def test_rows_of_a_tile_are_a_multiple_of_those_that_share_a_line() -> None:
    problem = choose_kernel(DPU, load_kernels(DPU), convolution((4, 20, 9, 9), (32, 3, 3), pads=(1, 1, 1, 1)), ("x",))
    assert size_limits(problem, "oh") == (9, problem.numbers["together"])


def test_a_tile_breaks_a_condition_of_its_kernel_or_a_field() -> None:
    wide = choose_kernel(VTA, load_kernels(VTA), convolution((1, 16, 300, 300), (16, 1, 1)), ("x",))
    found = [TileSize(wide, {"n": 1, "oc": 1, "oh": side, "ow": side, "ic": 1}).broken for side in (4, 1, 300)]
    assert found[0] == ""
    assert found[1].startswith("it wants oc * min(oh, ow) >= ")
    assert "outside" in found[2]
