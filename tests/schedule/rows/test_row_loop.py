"""Rows that a slab makes and reads: against the rows that change the result when they change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.groups.tall_regions import short_machine
from toolchain.operations.operation import Operation
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.rows.row_loop import RowLoop, row_dimension


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
