"""The order of a region's operations where branches run side by side: a pool beside the convolutions of its block, each on a unit of its own.

Units take their instructions in order. So an operation that leaves the busiest unit alone, such as an Inception block's pool, does best to run
beside the longest operation of the other branches, where few instructions for its own unit wait behind it.
"""

from collections.abc import Iterable, Sequence

from toolchain.schedule.kernels.kernel import Step
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.regions.region import Region

COMPUTING = ("start", "compute", "finish")
"""Steps that do an operation's work; whether others are needed is not known before tensors have their places."""


def branch_order(region: Region, problems: Sequence[Problem]) -> list[int]:
    """Indices of operations in the order in which they are to run: each without work for the unit with the most multiply-accumulates stands directly
    before the operation with the most of them, of those between its operands and its first reader."""
    macs, main = [problem.operation.macs for problem in problems], main_unit(problems)
    order = list(range(len(problems)))
    for index in (index for index, problem in enumerate(problems) if main not in working_units(problem.steps)):
        at = order.index(index)
        first = first_after(region, order[:at], index)
        beside = max(range(first, at), key=lambda place: macs[order[place]], default=at)
        if beside < at and macs[order[beside]]:
            order.insert(beside, order.pop(at))
    return order


def main_unit(problems: Sequence[Problem]) -> str:
    """The unit with the most multiply-accumulates; empty without operations."""
    work = [(problem.operation.macs, working_units(problem.steps)) for problem in problems]
    busiest = {unit: sum(macs for macs, others in work if unit in others) for _, units in work for unit in units}
    return max(busiest, key=lambda unit: (busiest[unit], unit), default="")


def working_units(steps: Iterable[Step]) -> set[str]:
    """The units that do the work of these steps."""
    return {unit for step in steps if step.kind in COMPUTING for unit in step.units}


def first_after(region: Region, before: Sequence[int], index: int) -> int:
    """The earliest place at which an operation may stand: behind the last of those `before` it that makes one of its operands."""
    operations = region.operations
    return max((place + 1 for place, other in enumerate(before) if region.reads(operations[index], operations[other])), default=0)
