"""Which inputs a region fetches: each is copied to a memory on chip that streams share where estimates say that this is quicker than reading it from
DRAM for each tile."""

from collections.abc import Callable, Mapping

from toolchain.schedule.form.plan import Plan
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import state_problem
from toolchain.schedule.placement.shared_memory import COPY, Fetch, fetchable, fetched_name, fetches_of, with_fetches
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine

REFUSED = ("E1003", "E1004", "E1007")
"""Codes of an input that a kernel cannot copy, that leaves no room for tiles, or that readers want stored otherwise."""
WORTH = 0.85
"""The part of the estimate so far below which one with a fetch must be where no program is timed: estimates leave out that streams of one image take
loads at once, so reading DRAM again may take a seventh less than they say (measured: by an estimate lower by 15 %, two dense layers of BERT take
18 % less; by a fifth, a conformer takes 6 % less)."""


def possible_fetches(machine: Machine, kernels: Mapping[str, Kernel], region: Region) -> tuple[Fetch, ...]:
    """The inputs that a kernel of the machine could copy, the largest first, each with the first kernel that can; none where no kernel copies."""
    able = [kernel for kernel in kernels.values() if kernel.computes == COPY and any(tensor.shared and tensor.written for tensor in kernel.tensors)]
    pairs = [Fetch(name, kernel.name) for name in fetchable(region) for kernel in able if _copies(machine, kernel, region, name)] if able else []
    return tuple({fetch.tensor: fetch for fetch in reversed(pairs)}[name] for name in dict.fromkeys(fetch.tensor for fetch in pairs))


def _copies(machine: Machine, kernel: Kernel, region: Region, tensor: str) -> bool:
    """Whether the kernel takes a tensor of this shape."""
    copy = with_fetches(region, (Fetch(tensor, kernel.name),)).operations[0]
    try:
        state_problem(machine, kernel, copy.operation)
    except UserError as error:
        _check(error)
        return False
    return True


def cheapest_fetches(region: Region, possible: tuple[Fetch, ...], planned: Callable[[Region], Plan], worth: float = 1.0) -> Plan:
    """The plan of the region with those fetches that lower its estimate to less than so much of it, one by one. planned: plans a region by estimates.

    Raises as it does."""
    best = planned(region)
    for fetch in possible:
        found = _on_chip(with_fetches(region, (*fetches_of(best.region), fetch)), planned)
        if found is not None and estimated(found) < worth * estimated(best):
            best = found
    return best


def _on_chip(region: Region, planned: Callable[[Region], Plan]) -> Plan | None:
    """The plan with all that is fetched in shared memories; None where that cannot be."""
    try:
        found = planned(region)
    except UserError as error:
        _check(error)
        return None
    return found if all(fetched_name(each.tensor) in found.shared for each in fetches_of(region)) else None


def _check(error: UserError) -> None:
    """Raises an error that says something else."""
    if not error.only(REFUSED):
        raise error


def estimated(plan: Plan) -> float:
    """Cycles of all operations, one after the other."""
    return sum(tiling.estimate for tiling in plan.tilings)
