"""Placement of each node and its reason: folded away, on the machine in a region, or on the host."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, reasons_of, refusals_of
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.regions import TARGET, region_calls, region_function
from toolchain.graph.work import host_work
from toolchain.passes.fuse import sources_of
from toolchain.passes.join_recurrent import parts_of
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why, text_of, texts_of
from toolchain.verify.built import stage_files

FOLDED, MACHINE, HOST = "folded", "machine", "host"


@dataclass(frozen=True)
class Placed:
    """One node of the model as it was imported, or that a pass made.

    where: folded, machine or host. target: the machine. refusals: by machine, why others that were asked first, or all of several, do not take it.
    operation: the fused operation that it became a part of, kind: of that operation. region: on the machine.
    reason: why it is not on the machine, or which pass took it away, in words; reasons: the same as data.
    macs: multiply-accumulates of the node for one sample.
    bytes: of the operation's operands and result for one sample, at its first node; 0 at the others.
    """

    node: str
    operator: str
    where: str
    operation: str
    kind: str
    region: str
    reason: str
    macs: int
    bytes: int
    target: str = ""
    refusals: Mapping[str, Reasons] = field(default_factory=dict[str, Reasons])
    reasons: Reasons = ()


@dataclass(frozen=True)
class NodePlaces:
    """nodes: in the order of the graph. conversions: nodes at the border between floating point and integers, which are not the model's own."""

    nodes: tuple[Placed, ...]
    conversions: int

    def on(self, where: str) -> list[Placed]:
        return [node for node in self.nodes if node.where == where]

    @property
    def computed(self) -> list[Placed]:
        """The nodes that somebody computes when the model runs."""
        return [node for node in self.nodes if node.where != FOLDED]

    @property
    def macs(self) -> int:
        return sum(node.macs for node in self.computed)

    @property
    def machine_macs(self) -> int:
        return sum(node.macs for node in self.on(MACHINE))

    @property
    def node_percent(self) -> float:
        """The share of the computed nodes that are on the machine."""
        return 100 * len(self.on(MACHINE)) / max(len(self.computed), 1)

    @property
    def mac_percent(self) -> float:
        """The share of their multiply-accumulates; 0 where there are none."""
        return 100 * self.machine_macs / self.macs if self.macs else 0.0


def place_nodes(floats: ir.Model, partitioned: ir.Model, stages: Path) -> NodePlaces:
    """floats: the last stage before fusion. stages: the folder of the graph's stages, for nodes that passes took away."""
    known = dict(_calls(partitioned))
    whole = {name: node for node in partitioned.graph for name in parts_of(node)}
    floating = [node for node in floats.graph if node.name not in whole or node.name == whole[node.name].name]
    names = {node.name for node in floating}
    gone = [node for node in _folded(stages) if node.node not in names]
    boundary = [node for node in partitioned.graph if kind_of(node) in ("quantize", "dequantize")]
    return NodePlaces((*gone, *(_placed(whole.get(node.name or "", node), known) for node in floating)), len(boundary))


@dataclass(frozen=True)
class _Call:
    """A node of the last graph, or of a region's function, that stands for nodes of the float one."""

    node: ir.Node
    region: str
    first: str
    target: str


def _calls(model: ir.Model) -> Iterator[tuple[str, _Call]]:
    """By the name of each float node that it stands for."""
    parts: list[tuple[str, str, Sequence[ir.Node]]] = [("", "", list(model.graph))]
    parts += [(call.op_type, call.metadata_props.get(TARGET, ""), list(region_function(model, call))) for call in region_calls(model)]
    for region, target, nodes in parts:
        for node in nodes:
            sources = sources_of(node)
            yield from ((name, _Call(node, region, sources[0], target)) for name in sources)


def _placed(node: ir.Node, known: Mapping[str, _Call]) -> Placed:
    name, call = node.name or "", known.get(node.name or "")
    macs = sum(work.macs for work in host_work([node]).values())
    if call is None:
        return _gone(name, node.op_type, Why.UNUSED())
    size = sum(work.bytes for work in host_work([call.node]).values()) if call.first == name else 0
    where = MACHINE if call.region else HOST
    operation = call.node.name or "" if kind_of(call.node) else ""
    reasons = () if call.region else reasons_of(call.node)
    refusals = refusals_of(call.node)
    return Placed(
        name, node.op_type, where, operation, kind_of(call.node), call.region, texts_of(reasons), macs, size, call.target, refusals, reasons
    )  # fmt: skip


def _folded(folder: Path) -> Iterator[Placed]:
    """Nodes of the imported model that a pass took away before operations were fused."""
    files = stage_files(folder)
    graphs = [{node.name: node.op_type for node in onnx.load(path, load_external_data=False).graph.node} for path in files]
    passes = [path.stem.partition("-")[2] for path in files]
    end = passes.index("fuse") if "fuse" in passes else len(files)
    for name, operator in graphs[0].items():
        by = next((passes[k] for k in range(1, end) if name not in graphs[k]), "")
        if by:
            yield _gone(name, operator, Why.FOLDED(step=by))


def _gone(name: str, operator: str, reason: Reason) -> Placed:
    return Placed(name, operator, FOLDED, "", "", "", text_of(reason), 0, 0, reasons=(reason,))
