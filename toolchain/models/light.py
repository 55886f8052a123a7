"""The light models of the onnx package: real graphs of 2017 (opset 9) whose weights are one repeated constant, here given made-up ones."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from onnx import numpy_helper

from toolchain.models.model import Light
from toolchain.models.operators import Shape
from toolchain.models.shape_graph import IR_VERSION, ShapeGraph
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest

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


_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
_PREFIX = "light_"


def light_names() -> list[str]:
    """The names of the graphs that the installed onnx package has."""
    return sorted(path.stem.removeprefix(_PREFIX) for path in _FOLDER.glob(f"{_PREFIX}*.onnx"))


def light_inputs(origin: Light) -> dict[str, Shape]:
    """The graph's own inputs."""
    bare = light_shape_graph(origin)
    return {value.name: bare.shapes[value.name] for value in bare.proto.graph.input}


def light_shape_graph(origin: Light) -> ShapeGraph:
    """The graph, its constants turned into parameters without values. Raises UserError E0807 when the onnx package lacks it."""
    path = _FOLDER / f"{_PREFIX}{origin.name}.onnx"
    if not path.is_file():
        known = light_names()
        raise fail(
            "E0807", f"the onnx package has no light model '{origin.name}'", origin.span, nearest(origin.name, known) or f"known: {', '.join(known)}"
        )
    model = onnx.load(path)
    parameters = _take_parameters(model.graph)
    model.ir_version = IR_VERSION
    model.producer_name = "tilewright"
    bare = ShapeGraph(model, parameters, {})
    return ShapeGraph(model, parameters, shapes_of(bare.declared()))


def _take_parameters(graph: onnx.GraphProto) -> dict[str, Shape]:
    """Removes what gives the weights their constant values; answers with their shapes."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    makers = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    parameters = {name: tuple(t.dims) for name, t in stored.items() if t.data_type == onnx.TensorProto.FLOAT}
    parameters |= {node.output[0]: tuple(int(n) for n in numpy_helper.to_array(stored[node.input[0]])) for node in makers}
    gone = {name for node in makers for name in node.input} | parameters.keys()
    for node in makers:
        graph.node.remove(node)
    for tensor in [t for t in graph.initializer if t.name in gone]:
        graph.initializer.remove(tensor)
    # Before IR 4 initializers had to be inputs too; now they must not look like something to feed.
    for value in [v for v in graph.input if v.name in stored or v.name in gone]:
        graph.input.remove(value)
    del graph.value_info[:]
    used = {name for node in graph.node for name in node.input}
    return {name: shape for name, shape in parameters.items() if name in used}
