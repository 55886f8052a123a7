"""Estimate a region's cost from the tiles that the search would take: close to its program's cycles, a hundred times faster than compiling it."""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.abi.dram_map import Buffer, StoredTensor
from toolchain.graph.regions import GraphRegion
from toolchain.graph.work import node_macs
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.compile_region import plan_region
from toolchain.schedule.dram_allocation import stored_tensors
from toolchain.schedule.graph_offload import GraphRules
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region


@dataclass(frozen=True)
class OperationEstimate:
    """cycles: of one run of the program, by the closed form of the tile search. macs: of all images of a run."""

    name: str
    kind: str
    cycles: float
    macs: int


@dataclass(frozen=True)
class RegionEstimate:
    """operations: in the order of the region. border: its inputs and outputs as they will be stored, by the graph's names."""

    name: str
    operations: tuple[OperationEstimate, ...]
    border: Mapping[str, Buffer]

    @property
    def cycles(self) -> float:
        """Cycles of one run; the closed form knows that operations overlap a little."""
        return sum(operation.cycles for operation in self.operations)


def estimate_region(backend: Backend, model: ir.Model, call: ir.Node) -> RegionEstimate:
    """Estimate the region that a call of a partitioned model runs. Raises UserError E1003, E1004, E1007, E1008."""
    machine, kernels, region = backend.machine, backend.kernels, backend.read(model, call)
    if isinstance(region, GraphRegion):
        return _estimate_graph(backend, region)
    if not backend.tiled:
        return _estimate_calls(backend, region, call)
    plan = plan_region(machine, kernels, region, Options(timed_groups=False))
    stored = stored_tensors(machine, region, plan.dram)
    operations = tuple(
        OperationEstimate(bound.operation.name, bound.operation.kind.name, tiling.estimate, bound.operation.macs)
        for bound, tiling in zip(region.operations, plan.tilings, strict=True)
    )
    return RegionEstimate(region.name, operations, _border(call, region, stored))


def _estimate_calls(backend: Backend, region: Region, call: ir.Node) -> RegionEstimate:
    """Calls cost the cycles that their kernels declare."""
    plan = plan_calls(backend, region)
    operations = tuple(
        OperationEstimate(bound.operation.name, bound.operation.kind.name, cycles, bound.operation.macs)
        for bound, cycles in zip(region.operations, plan.cycles, strict=True)
    )
    return RegionEstimate(region.name, operations, _border(call, region, plan.placed.map.tensors))


def _estimate_graph(backend: Backend, region: GraphRegion) -> RegionEstimate:
    rules, known = GraphRules(backend.machine), region.constants
    operations = tuple(OperationEstimate(node.name or "", node.op_type, rules.cycles(node, known), node_macs(node)) for node in region.nodes)
    return RegionEstimate(region.name, operations, {tensor.name: tensor for tensor in (*region.inputs, *region.outputs)})


def _border(call: ir.Node, region: Region, stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    data = [value for value in call.inputs if value is not None and not value.is_initializer()]
    names = dict(zip([value.name or "" for value in (*data, *call.outputs)], (*region.inputs, *region.outputs), strict=True))
    return {name: stored[own] for name, own in names.items()}
