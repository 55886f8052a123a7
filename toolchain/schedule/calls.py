"""A region whose operations are calls of a library: each one's kernel, and the places of all tensors in one block of memory."""

from dataclasses import dataclass, replace

from toolchain.schedule.backend import Backend
from toolchain.schedule.dram_allocation import PlacedRegion, place_region
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Call
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage, plan_storage
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant

NO_POOL = ("", b"")


@dataclass(frozen=True)
class PlannedCalls:
    """A region whose operations are calls. problems: one each. placed: tensors and constants in memory."""

    region: Region
    problems: tuple[Problem, ...]
    placed: PlacedRegion

    @property
    def cycles(self) -> tuple[float, ...]:
        """Cycles of each call, by its kernel's formula; 0 where the file has none."""
        return tuple(call_cycles(problem) for problem in self.problems)


def plan_calls(backend: Backend, region: Region, apart: bool = False) -> PlannedCalls:
    """apart: every tensor keeps a place of its own, so that all can be looked at when the region has run.

    Raises UserError E1003 and E1008 for an operation that the library cannot do, E1004 where memory is too small, E1007 for tensors that do not go
    together."""
    machine = backend.machine
    problems = [_problem(backend, region, bound) for bound in region.operations]
    storage = plan_storage(machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    lasting = _lasting(storage, len(problems)) if apart else storage
    return PlannedCalls(region, tuple(problems), place_region(machine, region, problems, lasting, NO_POOL))


def _problem(backend: Backend, region: Region, bound: Bound) -> Problem:
    kernels = {bound.kernel: backend.kernels[bound.kernel]} if bound.kernel else backend.kernels
    return choose_kernel(backend.machine, kernels, bound.operation, region.alone(bound))


def _lasting(storage: Storage, operations: int) -> Storage:
    return Storage({name: replace(buffer, first=0, last=operations) for name, buffer in storage.buffers.items()}, storage.places)


def library_call(problem: Problem) -> Call:
    """Raises UserError E1010 for a kernel of instructions, which no reader gives to such a machine."""
    if problem.kernel.call is None:
        raise fail("E1010", f"kernel '{problem.kernel.name}' calls no library", problem.kernel.span)
    return problem.kernel.call


def call_cycles(problem: Problem) -> float:
    """The cycles of one call, by its kernel's formula; 0 where the file has none."""
    call = library_call(problem)
    return 0.0 if call.cycles is None else float(constant(call.cycles, problem.numbers))
