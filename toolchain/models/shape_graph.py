"""An ONNX graph whose parameters have a name and a shape, but no values yet: enough for shapes, MACs and seeding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from toolchain.models.expand import Network
from toolchain.models.functions import DOMAIN, function_protos
from toolchain.models.graph_nodes import GraphNodes
from toolchain.models.operators import (
    Add,
    Call,
    Concat,
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    Layer,
    Leaky,
    Normalisation,
    Pointwise,
    Pool,
    Relu,
    Scaled,
    Sequential,
    Shape,
    Softmax,
    Upsample,
    Window,
)
from toolchain.models.sequence_graph import dense, emit_sequential

OPSET = 21
IR_VERSION = 10
FLOAT = int(onnx.TensorProto.FLOAT)


@dataclass(frozen=True)
class ShapeGraph:
    """proto: a model whose graph has no initializer for the names in `parameters`. shapes: of every other tensor."""

    proto: onnx.ModelProto
    parameters: Mapping[str, Shape]
    shapes: Mapping[str, Shape]

    def declared(self) -> onnx.ModelProto:
        """A copy that names the parameters' shapes, so that inference and counting work on it."""
        model = onnx.ModelProto()
        model.CopyFrom(self.proto)
        model.graph.value_info.extend(_info(name, shape) for name, shape in self.parameters.items())
        return model


def shape_graph(name: str, network: Network, inputs: Mapping[str, Shape], types: Mapping[str, int] | None = None) -> ShapeGraph:
    """The graph of a written-out network. types: ONNX's, of inputs that are not float32."""
    kinds = types or {}
    shapes = dict(inputs) | {layer.name: layer.shape for layer in network.layers}
    emitted = GraphNodes(shapes)
    for layer in network.layers:
        _emit(emitted, layer)
    graph = helper.make_graph(
        emitted.nodes,
        name,
        [_info(key, shape, kinds.get(key, FLOAT)) for key, shape in inputs.items()],
        [_info(key, shapes[key]) for key in network.outputs],
        emitted.constants,
        value_info=[_info(key, shape) for key, shape in shapes.items() if key not in inputs and key not in network.outputs],
    )
    libraries = dict.fromkeys(layer.operator.library for layer in network.layers if isinstance(layer.operator, Call))
    opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid(DOMAIN, 1)] if libraries else [])]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="tilewright")
    for library in libraries:
        proto.functions.extend(function_protos(library))
    return ShapeGraph(proto, emitted.parameters, shapes)


def _emit(graph: GraphNodes, layer: Layer) -> None:
    first = graph.shapes[layer.inputs[0]]
    match layer.operator:
        case Convolution(out=out, window=window, groups=groups, bias=bias):
            weights = {"weight": (out, first[1] // groups, *window.kernel)} | ({"bias": (out,)} if bias else {})
            own = graph.own(layer.name, weights)
            graph.last("Conv", layer, [*layer.inputs, *own], **_attributes(window), dilations=window.dilation, group=groups)
        case Normalisation(epsilon=epsilon):
            own = graph.own(layer.name, dict.fromkeys(("scale", "bias", "mean", "variance"), (first[1],)))
            graph.last("BatchNormalization", layer, [*layer.inputs, *own], epsilon=epsilon)
        case Relu(limit=None):
            graph.last("Relu", layer)
        case Relu(limit=limit):
            bounds = graph.constant(f"{layer.name}.low", np.float32(0)), graph.constant(f"{layer.name}.high", np.float32(limit or 0))
            graph.last("Clip", layer, [*layer.inputs, *bounds])
        case Leaky(slope=slope):
            graph.last("LeakyRelu", layer, alpha=slope)
        case Pointwise(kind="Silu"):
            graph.last("Mul", layer, [*layer.inputs, graph.inner("Sigmoid", f"{layer.name}.gate", layer.inputs, first)])
        case Pointwise(kind=kind):
            graph.last(kind, layer)
        case Dense(out=out, bias=bias) if len(first) == 3:
            dense(graph, layer.name, layer.inputs[0], out, bias)
        case Dense(out=out, bias=bias):
            weights = {"weight": (out, first[1])} | ({"bias": (out,)} if bias else {})
            graph.last("Gemm", layer, [*layer.inputs, *graph.own(layer.name, weights)], transB=1)
        case operator if isinstance(operator, Sequential):
            emit_sequential(graph, layer, operator)
        case _:
            _without_parameters(graph, layer)


def _without_parameters(graph: GraphNodes, layer: Layer) -> None:
    match layer.operator:
        case Pool(maximum=True, window=window, ceil=ceil):
            graph.last("MaxPool", layer, **_attributes(window), dilations=window.dilation, ceil_mode=int(ceil))
        case Pool(window=window, ceil=ceil, include_pad=include_pad):
            graph.last("AveragePool", layer, **_attributes(window), ceil_mode=int(ceil), count_include_pad=int(include_pad))
        case GlobalPool():
            graph.last("GlobalAveragePool", layer)
        case Flatten():
            graph.last("Flatten", layer, axis=1)
        case Add():
            _sum(graph, layer)
        case Concat():
            graph.last("Concat", layer, axis=1)
        case Upsample(factor=factor):
            scales = graph.constant(f"{layer.name}.scales", np.array([1, 1, factor, factor], np.float32))
            nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            graph.last("Resize", layer, [*layer.inputs, "", scales], **nearest)
        case Call(function=function, attributes=attributes):
            own: dict[str, object] = dict(attributes)
            graph.last(function, layer, domain=DOMAIN, **own)
        case Softmax():
            graph.last("Softmax", layer, axis=-1)
        case Scaled(by=by):
            graph.last("Mul", layer, [*layer.inputs, graph.constant(f"{layer.name}.by", np.float32(by))])
        case operator:
            raise TypeError(operator)


def _sum(graph: GraphNodes, layer: Layer) -> None:
    """A chain of two-input sums, as compilers expect them."""
    *early, last = layer.inputs[1:]
    left = layer.inputs[0]
    for number, right in enumerate(early):
        left = graph.inner("Add", f"{layer.name}.part{number}", [left, right], layer.shape)
    graph.last("Add", layer, [left, last])


def _attributes(window: Window) -> dict[str, tuple[int, ...]]:
    return {"kernel_shape": window.kernel, "strides": window.stride, "pads": window.pads}


def _info(name: str, shape: Sequence[int], kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)
