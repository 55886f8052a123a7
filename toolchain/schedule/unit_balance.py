"""Work spread over units: branches in an order in which their units run side by side, and relief of the unit with the most
multiply-accumulates.

Units take their instructions in order. So an operation that leaves the busiest unit alone, such as an Inception block's pool, does best to run
beside the longest operation of the other branches, where few instructions for its own unit wait behind it.

Alone, a kernel for another unit is mostly the slower one. It gains where other branches keep the busy unit at work meanwhile: an average
pool in an Inception block is a convolution with a diagonal kernel, or work for the pool unit beside the convolutions of its block.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.kernel_selection import CONTEXTS, able_kernels
from toolchain.schedule.kernels.kernel import Kernel, working_units
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tiling.tiles import tile_fits
from toolchain.spec.model import Machine


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


def first_after(region: Region, before: Sequence[int], index: int) -> int:
    """The earliest place at which an operation may stand: behind the last of those `before` it that makes one of its operands."""
    operations = region.operations
    return max((place + 1 for place, other in enumerate(before) if region.reads(operations[index], operations[other])), default=0)


def relieved(machine: Machine, kernels: Mapping[str, Kernel], region: Region) -> dict[int, str]:
    """The kernel of each operation that moves, by its index. There it takes no longer than the busy unit works between its operands and its readers,
    and all operations off the busy unit together take no longer than those on it. Where ports of banks are limited, it may hold up the busy unit all
    the while, so it must be quicker there even alone. Estimates of each operation's best tiles alone decide."""
    if any(bound.kernel not in kernels or kernels[bound.kernel].call for bound in region.operations):
        return {}
    problems = [state_problem(machine, kernels[bound.kernel], bound.operation) for bound in region.operations]
    main, choice, crowded = main_unit(problems), TileChoice(CONTEXTS, 1), any(memory.ports for memory in machine.memories)
    moving = {index: list(_others(machine, kernels, region, index, main)) for index, p in enumerate(problems) if main in working_units(p.steps)}
    if not any(moving.values()):
        return {}
    cycles = [choice.best(problem).estimate for problem in problems]
    busy, others = sum(cycles[index] for index in moving), sum(cycles[index] for index in range(len(problems)) if index not in moving)
    found: dict[int, str] = {}
    for index, able in moving.items():
        if not able:
            continue
        beside = sum(cycles[other] for other in _beside(region, index) if other in moving and other not in found)
        own, kernel = min((choice.best(problem).estimate, problem.kernel.name) for problem in able)
        if own <= beside and others + own <= busy - cycles[index] and (own < cycles[index] or not crowded):
            found[index], busy, others = kernel, busy - cycles[index], others + own
    return found


def _others(machine: Machine, kernels: Mapping[str, Kernel], region: Region, index: int, main: str) -> Iterator[Problem]:
    """The operation for each kernel that can do it without the busy unit, of which a tile fits, and whose tensors are stored as its neighbours have
    them."""
    bound = region.operations[index]
    alone = region.alone(bound)
    stored = _layouts(kernels[bound.kernel], alone)
    for problem in able_kernels(machine, kernels, bound.operation, [], alone):
        if main not in working_units(problem.kernel.steps) and _layouts(problem.kernel, alone) == stored and tile_fits(problem):
            yield problem


def _layouts(kernel: Kernel, alone: Collection[str]) -> dict[str, tuple[str, str]]:
    """View and layout of each tensor that comes from another operation or goes to one."""
    return {t.name: (t.view, t.layout) for t in kernel.tensors if t.values is None and t.name not in alone}


def _beside(region: Region, index: int) -> Sequence[int]:
    """Operations that make no operand of this one and do not read its result, and can run meanwhile."""
    count, operations = len(region.operations), region.operations
    stop = next((other for other in range(index + 1, count) if region.reads(operations[other], operations[index])), count)
    return [other for other in range(first_after(region, range(index), index), stop) if other != index]
