"""Fields that depend on an operation alone are looked at once; no tile that a field does not hold is let through for that."""

from dataclasses import replace

import numpy as np
import pytest

from tests.operations import made
from tests.operations.made import load_machine
from toolchain.operations.operation import Operation
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.field_limits import faults
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.tiling import tile_limits
from toolchain.schedule.tiling.tile_table import even_sizes, tile_names

WEIGHT, BIAS = np.ones((2048, 1024, 3, 3), np.int8), np.zeros(2048, np.int32)
OPERATIONS = [
    made.conv2d("c", (1, 1024, 230, 300), WEIGHT, BIAS, pads=(1, 1, 1, 1), shift=3),
    made.conv2d("c", (1, 1024, 300, 200), WEIGHT, BIAS, strides=(2, 2), shift=3),
    made.add("a", (1, 2048, 300, 400), 2, 1, made.Requantise(4)),
]


@pytest.mark.parametrize("name", ["vta", "dpuv3", "dnnvm"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=["conv", "stride", "add"])
def test_the_same_tiles_are_refused_as_if_all_fields_were_looked_at(name: str, operation: Operation) -> None:
    machine = load_machine(name)
    problem = choose_kernel(machine, load_kernels(machine), operation, ("x", "z"))
    grid = np.meshgrid(*(np.array(even_sizes(problem.extents[d.name]), np.int64) for d in problem.kernel.tile))
    names = tile_names(problem, {d.name: part.ravel() for d, part in zip(problem.kernel.tile, grid, strict=True)})
    known = tile_limits._known(problem, names)  # pyright: ignore[reportPrivateUsage]
    steps = [step.code for step in problem.steps if not isinstance(step.code, str)]
    rows, everything = np.arange(known.frame.count), replace(known, settled=frozenset())
    wanted, found = ({int(row) for code in steps for fault in faults(machine, code, how, rows) for row in fault.rows} for how in (everything, known))
    assert known.settled
    assert found == wanted
    assert 0 < len(wanted) < len(rows) or name == "dnnvm"
