"""Nodes of a protobuf model: all of them, those in the bodies of loops, scans and conditions too, and the functions that they call."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import onnx

Identifier = tuple[str, str, str]
"""Domain, name and overload of a function."""
Find = Callable[[Identifier], onnx.FunctionProto | None]


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that the attributes of a node hold."""
    return [graph for attribute in node.attribute for graph in ([attribute.g] if attribute.HasField("g") else attribute.graphs)]


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner.node)


def own_names(graph: onnx.GraphProto) -> set[str]:
    """The tensors that a graph is given, stores or makes itself."""
    return {entry.name for entry in (*graph.input, *graph.initializer)} | {name for node in graph.node for name in node.output}


def replace_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Gives a graph other nodes, some of which may be those that it has."""
    copies = onnx.GraphProto(node=nodes)  # protobuf forgets what it held before it takes what it is given
    graph.ClearField("node")
    graph.node.MergeFrom(copies.node)


def called_functions(nodes: Iterable[onnx.NodeProto], find: Find) -> dict[Identifier, onnx.FunctionProto]:
    """The functions that nodes call, and those that these call. find: answers None for an operator."""
    found: dict[Identifier, onnx.FunctionProto] = {}
    left = list(all_nodes(nodes))
    while left:
        node = left.pop()
        key = (node.domain, node.op_type, node.overload)
        function = None if key in found else find(key)
        if function is not None:
            found[key] = function
            left += all_nodes(function.node)
    return found


Shapes = Mapping[str, Sequence[int | None] | None]
"""By tensor; None for a size that is open, and for a tensor of unknown rank."""


def tensor_shapes(proto: onnx.ModelProto) -> Shapes:
    """The shape of every tensor that has one; None for a size that is open."""
    graph = proto.graph
    shapes: dict[str, Sequence[int | None] | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        kind = entry.type.tensor_type
        if entry.type.HasField("tensor_type") and kind.HasField("shape"):
            shapes[entry.name] = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return shapes
