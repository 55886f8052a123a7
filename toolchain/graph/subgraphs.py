"""The bodies of loops, scans and conditions in a protobuf model."""

from collections.abc import Iterable, Iterator

import onnx


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that the attributes of a node hold."""
    return [graph for attribute in node.attribute for graph in ([attribute.g] if attribute.HasField("g") else attribute.graphs)]


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner.node)
