"""Tiles found once for several operations: as each of them finds them for itself."""

from dataclasses import replace

import pytest

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.tile_table import TileTable, grid_of, legal_tiles, tile_key, tile_table
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings

MACHINE = load_machine("vta")
KERNEL = load_kernel(MACHINE, "conv2d")


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
