"""Brings a model to a newer operator set, node by node, without a change of meaning."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

from toolchain.graph.importing.opsets.known import Known, changed, fault
from toolchain.graph.importing.opsets.rules import due
from toolchain.graph.importing.opsets.site import Journey, Names, Site
from toolchain.graph.importing.resolve import infer_partly
from toolchain.graph.nodes.node_text import node_text
from toolchain.graph.nodes.subgraphs import replace_nodes, subgraphs
from toolchain.spec.errors import fail

INFERRED = 6
"""The first operator set that tells every operator's shapes; older models come here first."""


@dataclass(frozen=True)
class _Step:
    """From one operator set to another, on the way that the journey is."""

    version: int
    target: int
    names: Names
    journey: Journey


def upgrade(proto: onnx.ModelProto, path: Path, target: int) -> onnx.ModelProto:
    """The model at the operator set `target` (at most 21), or itself if it is there; the one given stays as it is.

    Nodes and tensors keep their names; ONNX's own domain has to be the empty one. Raises UserError E0906: a node that its operator set has not,
    or one without an equal form.
    """
    version = next(entry.version for entry in proto.opset_import if not entry.domain)
    journey = Journey(path, version, target)
    for stop in sorted({min(INFERRED, target), target}):
        if version < stop:
            proto = _stepped(proto, version, stop, journey)
            version = stop
    return proto


def _stepped(proto: onnx.ModelProto, version: int, target: int, journey: Journey) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    known = Known(proto.graph, lambda: infer_partly(proto).graph)
    _rewrite(result.graph, known, _Step(version, target, _names(proto.graph), journey))
    for entry in result.opset_import:
        if not entry.domain:
            entry.version = target
    return result


def _rewrite(graph: onnx.GraphProto, known: Known, step: _Step) -> None:
    """Rewrites the nodes of a graph in place; `known` is a view of the graph as it was."""
    nodes, grown = list[onnx.NodeProto](), False
    for number, node in enumerate(graph.node):
        for place, inner in enumerate(subgraphs(node)):
            _rewrite(inner, known.inner(number, place), step)
        site = _adapted(node, known, step)
        nodes.extend([*site.before, node, *site.after] if site else [node])
        graph.initializer.extend(site.constants if site else [])
        grown = grown or bool(site and (site.before or site.after))
    if grown:
        replace_nodes(graph, nodes)


def _adapted(node: onnx.NodeProto, known: Known, step: _Step) -> Site | None:
    """The site of a node that was rewritten; None for one that keeps its form."""
    if node.domain or not changed(node.op_type, step.version, step.target):
        return None
    if reason := fault(node, step.version):
        text = f"{node_text(node)}: not as operator set {step.journey.origin} has it: {reason}"
        raise fail("E0906", text, place=str(step.journey.path))
    adapters = due(node.op_type, step.version, step.target)
    if not adapters:
        return None
    site = Site(node, step.version, known, step.names, step.journey)
    for adapter in adapters:
        adapter(site)
    return site


def _names(graph: onnx.GraphProto) -> Names:
    read = frozenset(_read(graph))
    return Names({*read, *_made(graph)}, read)


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (entry.name for entry in graph.output)
    for node in graph.node:
        yield from node.input
        for inner in subgraphs(node):
            yield from _read(inner)


def _made(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (entry.name for entry in (*graph.input, *graph.initializer, *graph.value_info))
    for node in graph.node:
        yield from (node.name, *node.output)
        for inner in subgraphs(node):
            yield from _made(inner)
