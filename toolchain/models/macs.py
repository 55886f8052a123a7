"""Multiply-accumulates of an ONNX graph, node by node; an operation count is twice that."""

import math
from collections.abc import Mapping, Sequence

import onnx

Shapes = Mapping[str, Sequence[int]]


def node_macs(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Multiply-accumulates of one node, padding counted as work; 0 for operators that are none. Raises KeyError for an unknown shape."""
    match node.op_type.removesuffix("Integer"):
        case "Conv" | "QLinearConv":
            weight = shapes[node.input[3 if node.op_type == "QLinearConv" else 1]]
            return math.prod(shapes[node.output[0]]) * math.prod(weight[1:])
        case "ConvTranspose":
            return math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])
        case "Gemm":
            left = shapes[node.input[0]]
            return math.prod(shapes[node.output[0]]) * left[0 if _flag(node, "transA") else 1]
        case "MatMul" | "QLinearMatMul":
            return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
        case _:
            return 0


def graph_macs(nodes: Sequence[onnx.NodeProto], shapes: Shapes) -> dict[str, int]:
    """Multiply-accumulates by node name, or by the first output's name where a node has none; nodes without any are left out."""
    counted = ((node.name or node.output[0], node_macs(node, shapes)) for node in nodes)
    return {name: macs for name, macs in counted if macs}


def shapes_of(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Every tensor's shape as far as it is fixed, by ONNX's own shape inference."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            found[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return found


def _flag(node: onnx.NodeProto, name: str) -> bool:
    return any(a.name == name and a.i for a in node.attribute)
