"""Tiles found once for several operations: as each of them finds them for itself. The room of one tile by hand, and tiles that a kernel does
not allow."""

from dataclasses import replace

import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernel, load_kernels
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.tile_table import TileSize, TileTable, grid_of, legal_tiles, size_limits, tile_key, tile_table
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings

MACHINE = load_machine("vta")
KERNEL = load_kernel(MACHINE, "conv2d")

VTA, DPU = load_machine("vta"), load_machine("dpuv3")
PROBLEM = choose_kernel(VTA, load_kernels(VTA), convolution((1, 20, 9, 9), (32, 3, 3), pads=(1, 1, 1, 1)), ("x",))


def stated(channels: int = 64, rows: int = 28, shift: int = 9, part: int = 1) -> Problem:
    """A convolution with a part of each memory."""
    problem = state_problem(MACHINE, KERNEL, convolution((1, channels, rows, rows), (128, 3, 3), pads=(1, 1, 1, 1), shift=shift))
    return replace(problem, pools={name: tuple(Pool(p.bank, p.depth // part) for p in pools) for name, pools in problem.pools.items()})


PROBLEMS = [stated(), stated(shift=7), stated(part=2), stated(channels=48), stated(rows=14), stated(rows=14, part=2)]


def ranked(problem: Problem) -> list[Tiling]:
    """Alone and shared by streams; among some sizes as well."""
    sizes = {d.name: {*range(1, 1 << 10, 2)} for d in problem.kernel.tile}
    return [*rank_tilings(problem, 2, 20), *rank_tilings(problem, 2, 20, 4), *rank_tilings(problem, 2, 20, among=sizes)]


def own_table(problem: Problem) -> TileTable:
    return TileTable(problem, *legal_tiles(problem, grid_of(problem)), {})


def test_operations_that_share_a_table_have_the_tiles_of_tables_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [ranked(problem) for problem in PROBLEMS]
    monkeypatch.setattr("toolchain.schedule.tiling.tiles.tile_table", own_table)
    assert [ranked(problem) for problem in PROBLEMS] == shared


def test_operations_that_differ_in_room_alone_share_a_table() -> None:
    assert tile_table(stated()) is tile_table(stated(part=2)) is not tile_table(stated(rows=14))


def test_numbers_that_no_size_and_no_cost_names_are_no_part_of_the_key() -> None:
    assert tile_key(stated()) != tile_key(stated(channels=48))
    assert tile_key(stated()) == tile_key(replace(stated(), numbers={**stated().numbers, "unnamed": 1}))


def test_a_table_holds_no_weights() -> None:
    assert not tile_table(stated()).problem.operation.arrays


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
