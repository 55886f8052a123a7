"""Rows that a slab makes and reads: against the rows that change the result when they change. Loads that bring any rows of a tensor: those
that leave nothing out.

Tensors that groups load into rings: which can be, and in which slabs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, TALL
from toolchain.abi.dram_map import Shape
from toolchain.operations.operation import Operation
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.placement.on_chip_allocation import Lines, Use, find_use
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.schedule.rows.row_group import RowGroup, group_tensors
from toolchain.schedule.rows.row_loop import Loadable, RowLoad, RowLoop, find_loadable, row_dimension, row_lines, row_names, row_step

MACHINE, KERNELS = short_machine(8192)

LINES = Lines(8, "line", 6, 100)


def problem(operation: Operation) -> Problem:
    machine, kernels = short_machine()
    return choose_kernel(machine, kernels, operation, ("x",))


def convolution(height: int, kernel: int, stride: int, pad: int) -> Operation:
    weight = np.ones((16, 16, kernel, 1), np.int8)
    return made.conv2d("conv", (1, 16, height, 1), weight, np.zeros(16, np.int32), (stride, 1), (pad, 0, pad, 0), shift=0, low=-128, high=127)


@settings(max_examples=25, deadline=None)
@given(height=st.integers(3, 40), kernel=st.integers(1, 5), stride=st.integers(1, 3), size=st.sampled_from([8, 16]), data=st.data())
def test_a_slab_reads_the_rows_that_matter_to_it(height: int, kernel: int, stride: int, size: int, data: st.DataObject) -> None:
    pad = data.draw(st.integers(0, (kernel - 1) // 2))
    if height + 2 * pad < kernel:
        return
    operation = convolution(height, kernel, stride, pad)
    loop = RowLoop(problem(operation), "oh", size)
    for slab in range(loop.count):
        rows, read = loop.made(slab), loop.read(slab)["x"]
        wanted = {y * stride + u - pad for y in rows for u in range(kernel)} & set(range(height))
        assert set(read) >= wanted
        assert (read.start, read.stop) == (min(wanted), max(wanted) + 1)
        assert all(loop.slab_of(row) == slab for row in rows)
    assert [row for slab in range(loop.count) for row in loop.made(slab)] == list(range(operation.output[2]))


def test_a_unit_of_an_upsampling_makes_several_rows() -> None:
    found = problem(made.upsample("up", (4, 16, 6, 3), (2, 2)))
    assert row_dimension(found) == "oh"
    loop = RowLoop(found, "oh", 2)
    assert (loop.count, loop.made(1), loop.read(1)) == (3, range(4, 8), {"x": range(2, 4)})


@pytest.mark.parametrize("name", ["x", "z"])
def test_an_addition_reads_the_rows_that_it_makes(name: str) -> None:
    loop = RowLoop(problem(made.add("add", (4, 16, 20, 3))), "oh", 8)
    assert [loop.read(slab)[name] for slab in range(3)] == [range(8), range(8, 16), range(16, 20)]


def used(operation: Operation, place: str = "x") -> tuple[Problem, Use]:
    """The operation, and its use of an operand."""
    names = {name: name for name in ("x", "z") if name in operation.kind.data}
    tensors = {name: Shape(*operation.input(name)) for name in names} | {"y": Shape(*operation.output)}
    region = Region("one", tensors, tuple(names), ("y",), (Bound(operation, {**names, "y": "y"}),), {})
    problem = choose_kernel(MACHINE, KERNELS, operation, tuple(names))
    storage = plan_storage(MACHINE, region, [problem.kernel], [problem.numbers])
    use = find_use(problem, 0, place, storage, place)
    assert use is not None
    return problem, use


def square_convolution(channels: int, kernel: int, stride: int, width: int = 9, height: int = 40) -> Operation:
    weight = np.ones((16, channels, kernel, kernel), np.int8)
    pad = kernel // 2
    return made.conv2d(
        "conv", (1, channels, height, width), weight, np.zeros(16, np.int32), (stride, stride), (pad, pad, pad, pad), shift=0, low=-128, high=127
    )


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "name"),
    [(32, 3, 1, "conv2d"), (32, 3, 2, "conv2d"), (32, 1, 1, "conv2d"), (3, 3, 1, "columns")],
)
def test_every_row_is_brought(channels: int, kernel: int, stride: int, name: str) -> None:
    problem, use = used(square_convolution(channels, kernel, stride))
    assert problem.kernel.name == name
    assert row_step(problem, use, 8) is not None


@pytest.mark.parametrize(("channels", "kernel", "name"), [(32, 1, "conv2d"), (3, 3, "squares")])
def test_loads_that_leave_rows_out_or_fold_them_bring_none(channels: int, kernel: int, name: str) -> None:
    found = choose_kernel(MACHINE, KERNELS, square_convolution(channels, kernel, 2), ("x",))
    assert found.kernel.name == name
    place = next(place for place in found.kernel.places if place.name == "x")
    whole, use = used(square_convolution(32, 3, 1))
    assert row_step(whole, use, 8) is not None
    assert row_step(found, replace(use, place=place), 8) is None


def test_pixels_that_share_a_word_make_shorter_lines() -> None:
    problem, use = used(square_convolution(3, 3, 1, width=40))
    lines = row_lines(problem, use)
    assert use.lines is not None
    assert (use.lines.line, lines and lines.line) == (10, 10)
    crowded, use = used(square_convolution(5, 5, 1, width=40))
    assert crowded.kernel.name == "columns"
    assert row_lines(crowded, use) is None


@pytest.mark.parametrize("place", ["x", "z"])
def test_both_operands_of_an_addition_have_rows(place: str) -> None:
    problem, use = used(made.add("add", (4, 16, 40, 6)), place)
    assert row_step(problem, use, 8) is not None
    assert row_lines(problem, use) == use.lines


@settings(max_examples=30, deadline=None)
@given(kernel=st.sampled_from([1, 3, 5]), stride=st.integers(1, 2), first=st.integers(0, 30), count=st.integers(1, 10))
def test_a_load_sees_the_rows_that_it_is_told_and_all_columns(kernel: int, stride: int, first: int, count: int) -> None:
    problem, use = used(square_convolution(32, kernel, stride)) if (kernel, stride) != (1, 2) else used(square_convolution(32, 3, 2))
    names = row_names(problem, use.place, range(first, first + count))
    assert (names["h_first"], names["h_count"], names["h_before"], names["h_after"]) == (first, count, 0, 0)
    assert (names["w_first"], names["w_count"]) == (0, 9)
    assert "oh" not in names


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
