"""The costs of a region that is a graph: each operator by the machine's file, one after the other."""

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from toolchain.graph.graph_region import Array, GraphRegion
from toolchain.graph.operators.work import node_macs
from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.schedule.backend import Backend
from toolchain.schedule.graph_offload import GraphRules
from toolchain.timing.usage import Basis, assumed_params

UNIT = "engine"
"""The one that operators keep busy, as tables name it."""


def use_graph(backend: Backend, region: GraphRegion) -> RegionUse:
    """bound: the whole time, as operators do not overlap."""
    machine, rules = backend.machine, GraphRules(backend.machine)
    uses = tuple(_use(rules, node, region.constants) for node in region.nodes)
    total = sum(use.cycles for use in uses)
    return RegionUse(
        region.name, machine.name, 1, len(uses), total, total, UNIT, uses, (), tuple(_constants(backend)), 1,
        machine.timing.peak_macs,
    )  # fmt: skip


def _use(rules: GraphRules, node: ir.Node, known: Mapping[str, Array]) -> OperationUse:
    cycles = rules.cycles(node, known)
    return OperationUse(node.name or "", node.op_type, 1, cycles, UNIT, cycles, node_macs(node), rules.bytes(node))


def _constants(backend: Backend) -> Iterator[Basis]:
    timing = backend.machine.timing
    yield Basis("clock_khz", timing.clock_khz, timing.clock_source, assumed=False)
    if timing.peak_macs is not None:
        yield Basis("peak_macs", timing.peak_macs, timing.peak_source, assumed=False)
    yield from assumed_params(backend.machine)
    yield from (Basis(f"{r.name} bytes_per_cycle", r.bytes_per_cycle, r.source, r.assumed) for r in timing.resources)
