"""The graphs inside control flow, and how often each runs, as far as that is known before it runs."""

from collections.abc import Sequence

import onnx_ir as ir

from toolchain.graph.nodes.rewrite import constant, integer, ints, is_operator, known_shape


def bodies_of(node: ir.Node) -> list[tuple[ir.Graph, int]]:
    """The bodies of a node, each with its number of runs; of an If both branches, of which one runs. What depends on the data counts as 1."""
    graphs = [graph for attribute in node.attributes.values() for graph in _graphs(attribute)]
    times = _trips(node) if is_operator(node, "Loop") else _steps(node) if is_operator(node, "Scan") else 1
    return [(graph, times) for graph in graphs]


def _graphs(attribute: ir.Attr) -> Sequence[ir.Graph]:
    if attribute.is_ref():
        return ()
    if attribute.type == ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return tuple(attribute.as_graphs()) if attribute.type == ir.AttributeType.GRAPHS else ()


def _trips(node: ir.Node) -> int:
    """Iterations of a Loop; the most, where its condition may end it earlier."""
    count = constant(node.inputs[0])
    return max(int(count.item()), 0) if count is not None and count.size == 1 and count.item() < 2**31 else 1


def _steps(node: ir.Node) -> int:
    """The length of the first scanned input along its axis."""
    count = integer(node, "num_scan_inputs", 0)
    axis = (*ints(node, "scan_input_axes", ()), 0)[0]
    shape = known_shape(node.inputs[-count]) if count else None
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else 1
