"""Tensors that groups load into rings: which can be, and in which slabs."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, TALL
from toolchain.abi.dram_map import Shape
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.placement.on_chip_allocation import Lines
from toolchain.schedule.regions.region import Region, Slice
from toolchain.schedule.rows.row_group import RowGroup, group_tensors
from toolchain.schedule.rows.row_load import Loadable, RowLoad, find_loadable
from toolchain.schedule.rows.row_loop import RowLoop

LINES = Lines(8, "line", 6, 100)


def loadable(region: Region, members: range, tensor: str) -> Loadable | None:
    machine, kernels = short_machine()
    problems = [choose_kernel(machine, kernels, bound.operation, region.alone(bound)) for bound in region.operations]
    storage = plan_storage(machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    return find_loadable(region, problems, storage, members, tensor)


@given(height=st.integers(1, 90), size=st.integers(1, 100))
def test_slabs_bring_every_row_once(height: int, size: int) -> None:
    load = RowLoad("t", "0 t", 0, "x", height, size, LINES)
    rows = [row for slab in range(load.count) for row in load.made(slab)]
    assert rows == list(range(height))
    assert all(row in load.made(load.slab_of(row)) for row in rows)
    assert load.read(0) == {}
    assert load.touched(0) == {"x": load.made(0)}


def test_all_readers_share_one_ring() -> None:
    found = loadable(CHAINS["branches"], range(4), "t")
    assert found is not None
    assert [use.operation for use in found.candidate.reads] == [0, 1, 2]
    assert found.candidate.writes == ()
    assert found.load(range(4), 8) == RowLoad("t", "0 t", 0, "x", TALL[2], 8, found.lines)


def test_groups_have_rings_of_their_own() -> None:
    names = {found.candidate.name for members in (range(1), range(1, 2), range(1, 3)) if (found := loadable(CHAINS["branches"], members, "t"))}
    assert names == {"0 t", "1 t"}


def test_a_tensor_that_a_member_makes_is_not_loaded() -> None:
    assert loadable(CHAINS["conv -> conv"], range(2), "t0") is None
    assert loadable(CHAINS["conv -> conv"], range(1, 2), "t0") is not None


def test_a_part_of_a_tensor_is_not_loaded_while_another_one_is_made() -> None:
    region = CHAINS["conv -> conv"]
    tensors = {**region.tensors, "both": Shape(4, 32, 400, 6)}
    sliced = replace(region, tensors=tensors, slices={"t0": Slice("both", 0), "t1": Slice("both", 16)}, outputs=("both",))
    assert loadable(sliced, range(1, 2), "both") is None


def test_a_load_runs_before_its_readers() -> None:
    region, members = CHAINS["branches"], range(2)
    machine, kernels = short_machine()
    problems = [choose_kernel(machine, kernels, bound.operation, region.alone(bound)) for bound in region.operations]
    storage = plan_storage(machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    found = find_loadable(region, problems, storage, members, "t")
    assert found is not None
    loops = [RowLoop(problems[index], "oh", 8) for index in members]
    group = RowGroup(members, loops, group_tensors(region, storage, members, [found]), 1, [found.load(members, 8)])
    brought = 0
    for turn in group.turns:
        if turn.member == 2:
            brought = group.makers[2].made(turn.slab).stop
        else:
            assert brought >= loops[turn.member].read(turn.slab)["x"].stop
    assert brought == TALL[2]
