"""Steps written one by one and at once: the same instructions, with their purpose, their step and the records that they name."""

from functools import cache

from tests.schedule.test_compile_region import KERNELS, MACHINES, two_convolutions
from toolchain.schedule.compile_region import find_schedule
from toolchain.schedule.form.realise import realise
from toolchain.schedule.program import ordered_steps
from toolchain.schedule.tiling.ring import find_rings
from toolchain.schedule.writer import OperationPart

MACHINE = MACHINES["dpuv3"]


@cache
def parts() -> list[OperationPart]:
    plan = realise(MACHINE, KERNELS["dpuv3"], two_convolutions(), find_schedule(MACHINE, KERNELS["dpuv3"], two_convolutions()))
    return list(ordered_steps(plan, find_rings(plan.problems)).parts)
