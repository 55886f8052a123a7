"""An ONNX graph whose parameters have a name and a shape, but no values yet: enough for shapes, MACs and seeding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.models.expand import Network
from toolchain.models.functions import DOMAIN, function_protos
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
    Pool,
    Relu,
    Shape,
    Softmax,
    Upsample,
    Window,
)

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


def shape_graph(name: str, network: Network, inputs: Mapping[str, Shape]) -> ShapeGraph:
    """The graph of a written-out network."""
    shapes = dict(inputs) | {layer.name: layer.shape for layer in network.layers}
    emitter = _Emitter(shapes)
    for layer in network.layers:
        emitter.emit(layer)
    graph = helper.make_graph(
        emitter.nodes,
        name,
        [_info(key, shape) for key, shape in inputs.items()],
        [_info(key, shapes[key]) for key in network.outputs],
        emitter.constants,
        value_info=[_info(key, shape) for key, shape in shapes.items() if key not in inputs and key not in network.outputs],
    )
    libraries = dict.fromkeys(layer.operator.library for layer in network.layers if isinstance(layer.operator, Call))
    opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid(DOMAIN, 1)] if libraries else [])]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="tilewright")
    for library in libraries:
        proto.functions.extend(function_protos(library))
    return ShapeGraph(proto, emitter.parameters, shapes)


class _Emitter:
    """Gathers nodes, named parameters and scalar constants."""

    def __init__(self, shapes: dict[str, Shape]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.parameters: dict[str, Shape] = {}
        self.constants: list[onnx.TensorProto] = []
        self._shapes = shapes

    def emit(self, layer: Layer) -> None:
        first = self._shapes[layer.inputs[0]]
        match layer.operator:
            case Convolution(out=out, window=window, groups=groups, bias=bias):
                weights = {"weight": (out, first[1] // groups, *window.kernel)} | ({"bias": (out,)} if bias else {})
                self._add("Conv", layer, [*layer.inputs, *self._own(layer, weights)], **_attributes(window), dilations=window.dilation, group=groups)
            case Normalisation(epsilon=epsilon):
                own = self._own(layer, dict.fromkeys(("scale", "bias", "mean", "variance"), (first[1],)))
                self._add("BatchNormalization", layer, [*layer.inputs, *own], epsilon=epsilon)
            case Relu(limit=None):
                self._add("Relu", layer)
            case Relu(limit=limit):
                bounds = self._constant(f"{layer.name}.low", np.float32(0)), self._constant(f"{layer.name}.high", np.float32(limit or 0))
                self._add("Clip", layer, [*layer.inputs, *bounds])
            case Leaky(slope=slope):
                self._add("LeakyRelu", layer, alpha=slope)
            case Dense(out=out, bias=bias):
                weights = {"weight": (out, first[1])} | ({"bias": (out,)} if bias else {})
                self._add("Gemm", layer, [*layer.inputs, *self._own(layer, weights)], transB=1)
            case _:
                self._without_parameters(layer)

    def _without_parameters(self, layer: Layer) -> None:
        match layer.operator:
            case Pool(maximum=True, window=window, ceil=ceil):
                self._add("MaxPool", layer, **_attributes(window), dilations=window.dilation, ceil_mode=int(ceil))
            case Pool(window=window, ceil=ceil, include_pad=include_pad):
                self._add("AveragePool", layer, **_attributes(window), ceil_mode=int(ceil), count_include_pad=int(include_pad))
            case GlobalPool():
                self._add("GlobalAveragePool", layer)
            case Flatten():
                self._add("Flatten", layer, axis=1)
            case Add():
                self._sum(layer)
            case Concat():
                self._add("Concat", layer, axis=1)
            case Upsample(factor=factor):
                scales = self._constant(f"{layer.name}.scales", np.array([1, 1, factor, factor], np.float32))
                nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
                self._add("Resize", layer, [*layer.inputs, "", scales], **nearest)
            case Call(function=function, attributes=attributes):
                own: dict[str, object] = dict(attributes)
                self._add(function, layer, domain=DOMAIN, **own)
            case Softmax():
                self._add("Softmax", layer, axis=-1)
            case operator:
                raise TypeError(operator)

    def _sum(self, layer: Layer) -> None:
        """A chain of two-input sums, as compilers expect them."""
        *early, last = layer.inputs[1:]
        left = layer.inputs[0]
        for number, right in enumerate(early):
            result = f"{layer.name}.part{number}"
            self.nodes.append(helper.make_node("Add", [left, right], [result], result))
            self._shapes[result] = layer.shape
            left = result
        self._add("Add", layer, [left, last])

    def _add(self, kind: str, layer: Layer, inputs: Sequence[str] | None = None, /, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(kind, layer.inputs if inputs is None else inputs, [layer.name], layer.name, **attributes))

    def _own(self, layer: Layer, shapes: Mapping[str, Shape]) -> Iterator[str]:
        for name, shape in shapes.items():
            full = f"{layer.name}.{name}"
            self.parameters[full] = shape
            yield full

    def _constant(self, name: str, value: np.float32 | np.typing.NDArray[np.float32]) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name


def _attributes(window: Window) -> dict[str, tuple[int, ...]]:
    return {"kernel_shape": window.kernel, "strides": window.stride, "pads": window.pads}


def _info(name: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)
