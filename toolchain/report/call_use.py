"""The costs of a region whose operations are calls of a C library: what its kernels say, and the bytes of every tensor that a call names."""

from collections.abc import Iterator

from toolchain.report.region_use import MemoryRoom, OperationUse, RegionUse
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import PlannedCalls, plan_calls
from toolchain.schedule.placement.tensor_values import tensor_packing
from toolchain.schedule.regions.region import Region
from toolchain.timing.usage import Basis, assumed_params

UNIT = "processor"
"""The one that calls keep busy, as tables name it."""


def use_calls(backend: Backend, region: Region) -> RegionUse:
    """Raises UserError E10xx for a region that the library cannot do."""
    machine, plan = backend.machine, plan_calls(backend, region)
    held, memory = plan.placed.map, machine.memory[plan.placed.map.memory]
    operations = tuple(_operations(plan))
    written = sum(_bytes(plan, number, written=True) for number in range(len(operations)))
    read = sum(use.bytes for use in operations) - written
    total = sum(plan.cycles)
    timing = machine.timing
    basis = Basis("clock_khz", timing.clock_khz, timing.clock_source, assumed=False)
    return RegionUse(
        region.name, machine.name, held.tensors[held.outputs[0]].shape.batch, len(operations), total, total, UNIT, operations,
        (MemoryRoom(memory.name, False, held.bytes, memory.bytes, read, written),), (basis, *assumed_params(machine)), 1, timing.peak_macs,
    )  # fmt: skip


def _operations(plan: PlannedCalls) -> Iterator[OperationUse]:
    for number, (bound, cycles) in enumerate(zip(plan.region.operations, plan.cycles, strict=True)):
        moved = _bytes(plan, number, written=True) + _bytes(plan, number, written=False)
        yield OperationUse(bound.operation.name, bound.operation.kind.name, 1, cycles, UNIT, cycles, bound.operation.macs, moved)


def _bytes(plan: PlannedCalls, number: int, written: bool) -> int:
    """Bytes of the tensors that a call reads, or of those that it writes, each once."""
    problem = plan.problems[number]
    tensors = [tensor for tensor in problem.kernel.tensors if tensor.written == written]
    return sum(tensor_packing(problem.machine, tensor, problem.numbers).bytes for tensor in tensors)
