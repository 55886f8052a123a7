"""Graphs that exist as ONNX files before they are imported: a user's own, and the light models of the onnx package.

Those are real graphs of 2017 (opset 9) whose weights are one repeated constant; here they get made-up weights.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from toolchain.graph.importing.shapes import OpenAxis, fix_dims, open_axes
from toolchain.graph.nodes import shape_text
from toolchain.models.model import Input, Light
from toolchain.models.operators import Shape
from toolchain.models.shape_graph import IR_VERSION, ShapeGraph
from toolchain.spec.errors import fail, nearest

NUMPY_NAMES = {"float": "float32", "double": "float64"}
"""Types that ONNX names differently."""


def stored_inputs(path: Path, dims: Mapping[str, int] | None = None, shapes: Mapping[str, Shape] | None = None) -> dict[str, Input]:
    """Inputs by name. dims: sizes of open dimensions, by their name or as `input.axis`. shapes: of inputs, as the model's own file has them.

    Raises UserError E0807 for a file that is no model, an unknown type, or a shape that does not fit it, E0904 and E0905 as `fix_dims`.
    """
    graph = _inputs(path)
    proto = onnx.ModelProto(graph=onnx.GraphProto(input=graph))
    fix_dims(proto, dims or {}, path)
    found = {value.name: _input(value, path) for value in proto.graph.input}
    for name, shape in (shapes or {}).items():
        if name not in found:
            raise fail("E0807", f"the ONNX file has no input '{name}'", hint=nearest(name, found) or f"it has: {', '.join(found)}", place=str(path))
        if found[name].shape != tuple(shape):
            raise fail("E0807", f"the input '{name}' has the shape {shape_text(found[name].shape)}, not {shape_text(shape)}", place=str(path))
    return found


def open_sizes(path: Path, inputs: Mapping[str, Shape]) -> dict[str, int]:
    """Sizes of the open dimensions, as `input.axis`, by the shapes of inputs. Raises UserError E0807 for a file that is no model."""
    axes = open_axes(onnx.GraphProto(input=_inputs(path)))
    return {axis.key: inputs[axis.input][axis.axis] for axis in axes if axis.axis < len(inputs.get(axis.input, ()))}


def named_axes(path: Path) -> list[OpenAxis]:
    """The open dimensions of the inputs. Raises UserError E0807 for a file that is no model."""
    return open_axes(onnx.GraphProto(input=_inputs(path)))


def _inputs(path: Path) -> list[onnx.ValueInfoProto]:
    graph = _read(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def _input(value: onnx.ValueInfoProto, path: Path) -> Input:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return Input((), value.type.WhichOneof("value") or "unknown")
    if kind.elem_type not in onnx.TensorProto.DataType.values():
        raise fail("E0807", f"the input '{value.name}' has a type that ONNX does not know: {kind.elem_type}", place=str(path))
    name = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
    return Input(tuple(dim.dim_value for dim in kind.shape.dim), NUMPY_NAMES.get(name, name))


def external_files(path: Path) -> list[Path]:
    """The files beside a model that hold its weights. Raises UserError E0807 for one that is missing or lies elsewhere."""
    names = dict.fromkeys(entry.value for tensor in _tensors(_read(path).graph) for entry in tensor.external_data if entry.key == "location")
    return [_beside(path, name) for name in names]


def _read(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise fail("E0001", f"cannot read the model: {error.strerror}", place=str(path)) from None
    except DecodeError:
        raise fail("E0807", "this is not an ONNX file, or it is cut short", place=str(path)) from None
    if not model.ir_version or not model.HasField("graph"):
        raise fail("E0807", "this ONNX file holds no graph", place=str(path))
    if not model.graph.node:
        raise fail("E0807", "the graph of this ONNX file has no operator", place=str(path))
    return model


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every constant, also of bodies of loops and conditions."""
    yield from graph.initializer
    for attribute in (a for node in graph.node for a in node.attribute):
        yield attribute.t
        yield from attribute.tensors
        for inner in (attribute.g, *attribute.graphs):
            yield from _tensors(inner)


def _beside(path: Path, name: str) -> Path:
    if len(PurePosixPath(name).parts) != 1 or name in (".", "..") or "\\" in name:
        raise fail("E0807", f"the weights '{name}' are not in the model's own folder", place=str(path))
    file = path.parent / name
    if not file.is_file() or file.is_symlink():
        raise fail("E0807", f"the model's weights '{name}' are missing", place=str(path))
    return file


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
    """Removes the nodes that fill the weights with a constant; answers with the weights' shapes."""
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
