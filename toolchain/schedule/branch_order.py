"""The order of a region's operations where branches run side by side: a pool beside the convolutions of its block, each on a unit of its own.

Units take their instructions in order. So an operation that leaves the busiest unit alone, such as an Inception block's pool, does best to run
beside the longest operation of the other branches, where few instructions for its own unit wait behind it.
"""

from collections.abc import Sequence

from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.regions.region import Region

COMPUTING = ("start", "compute", "finish")
"""Steps that do an operation's work; whether others are needed is not known before tensors have their places."""


def branch_order(region: Region, storage: Storage, problems: Sequence[Problem]) -> list[int]:
    """Indices of operations in the order in which they are to run: each without work for the unit with the most multiply-accumulates stands directly
    before the operation with the most of them, of those between its operands and its first reader."""
    macs = [problem.operation.macs for problem in problems]
    work = [{unit for step in problem.steps if step.kind in COMPUTING for unit in step.units} for problem in problems]
    busiest = {unit: sum(m for m, units in zip(macs, work, strict=True) if unit in units) for units in work for unit in units}
    main = max(busiest, key=lambda unit: (busiest[unit], unit), default="")
    order = list(range(len(problems)))
    for index in (index for index, units in enumerate(work) if main not in units):
        at = order.index(index)
        first = max((place + 1 for place, other in enumerate(order[:at]) if _depends(region, storage, index, other)), default=0)
        beside = max(range(first, at), key=lambda place: macs[order[place]], default=at)
        if beside < at and macs[order[beside]]:
            order.insert(beside, order.pop(at))
    return order


def _depends(region: Region, storage: Storage, index: int, earlier: int) -> bool:
    """Whether an operation reads what an earlier one makes, as a whole or as a part of it, in whatever buffer it stands."""
    made = region.operations[earlier].tensors["y"]
    read = [tensor for name, tensor in region.operations[index].tensors.items() if name != "y"]
    return any(storage.places[tensor][0] == storage.places[made][0] for tensor in read)
