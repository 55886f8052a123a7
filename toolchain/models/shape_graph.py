"""An ONNX graph whose parameters have a name and a shape, but no values yet: enough for shapes, MACs and seeding; with the nodes of layers on
sequences as exporters spell them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.models.expand import Network
from toolchain.models.functions import DOMAIN, function_protos
from toolchain.models.operators import (
    Add,
    Attention,
    Call,
    Concat,
    Convolution,
    Dense,
    Embedding,
    Flatten,
    Gated,
    GlobalPool,
    Interaction,
    Layer,
    LayerNorm,
    Leaky,
    Normalisation,
    Pointwise,
    Pool,
    Positions,
    Relu,
    Scaled,
    Sequential,
    Shape,
    Softmax,
    Strip,
    Token,
    Tokens,
    Upsample,
    Window,
)
from toolchain.spec.arrays import Array


@dataclass
class GraphNodes:
    """shapes: of every tensor that is no parameter and no constant. parameters: shapes of those that get values later."""

    shapes: dict[str, Shape]
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    parameters: dict[str, Shape] = field(default_factory=dict[str, Shape])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def last(self, kind: str, layer: Layer, inputs: Sequence[str] | None = None, /, **attributes: Any) -> None:
        """The node of a layer's own result; on the layer's inputs where none are given."""
        self.nodes.append(helper.make_node(kind, layer.inputs if inputs is None else inputs, [layer.name], layer.name, **attributes))

    def inner(self, kind: str, name: str, inputs: Sequence[str], shape: Shape, /, **attributes: Any) -> str:
        """A node of a layer of several; answers with its result, which is called as the node is."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        self.shapes[name] = shape
        return name

    def several(self, kind: str, name: str, inputs: Sequence[str], results: Mapping[str, Shape], /, **attributes: Any) -> tuple[str, ...]:
        """A node of several results; answers with their names."""
        self.nodes.append(helper.make_node(kind, inputs, list(results), name, **attributes))
        self.shapes |= results
        return tuple(results)

    def own(self, prefix: str, shapes: Mapping[str, Shape]) -> Iterator[str]:
        """Declares parameters and answers with their names."""
        for name, shape in shapes.items():
            full = f"{prefix}.{name}"
            self.parameters[full] = shape
            yield full

    def constant(self, name: str, value: Array | np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name


UNSEEN = -10_000.0
"""Added to the score of a row that may not be seen: its share is 0 in float32 and in f16."""


def emit_sequential(graph: GraphNodes, layer: Layer, operator: Sequential) -> None:
    """Adds the nodes of a layer whose operator is `operator`; the last one gives the layer's result."""
    shape = graph.shapes[layer.inputs[0]]
    match operator:
        case Embedding(rows=rows, out=out):
            (table,) = graph.own(layer.name, {"table": (rows, out)})
            graph.last("Gather", layer, [table, *layer.inputs], axis=0)
        case Positions():
            graph.last("Add", layer, [*layer.inputs, *graph.own(layer.name, {"table": shape[1:]})])
        case LayerNorm(epsilon=epsilon):
            own = graph.own(layer.name, dict.fromkeys(("scale", "bias"), shape[-1:]))
            graph.last("LayerNormalization", layer, [*layer.inputs, *own], axis=-1, epsilon=epsilon)
        case Attention():
            _attention(graph, layer, operator)
        case Tokens(first=first):
            _tokens(graph, layer, first)
        case Token(at=at):
            graph.last("Gather", layer, [*layer.inputs, graph.constant(f"{layer.name}.at", np.array(at, np.int64))], axis=1)
        case Strip():
            _strip(graph, layer)
        case Gated():
            _gated(graph, layer)
        case Interaction():
            _interaction(graph, layer)


def dense(graph: GraphNodes, name: str, x: str, out: int, bias: bool = True, parameters: str = "") -> str:
    """A product of each row with weights [width, out], and a bias; answers with the result. parameters: their prefix, the name where left out."""
    shape, prefix = graph.shapes[x], parameters or name
    (weights,) = graph.own(prefix, {"weight": (shape[-1], out)})
    product = graph.inner("MatMul", f"{name}.product" if bias else name, [x, weights], (*shape[:-1], out))
    return graph.inner("Add", name, [product, *graph.own(prefix, {"bias": (out,)})], (*shape[:-1], out)) if bias else product


def _attention(graph: GraphNodes, layer: Layer, operator: Attention) -> None:
    (x,), p, heads = layer.inputs, layer.name, operator.heads
    batch, rows, width = graph.shapes[x]
    inner = width // heads
    apart = graph.constant(f"{p}.by_heads", np.array([0, 0, heads, inner], np.int64))
    q, k, v = (_heads(graph, dense(graph, f"{p}.{name}", x, width), apart, (batch, rows, heads, inner), name == "keys") for name in PROJECTIONS)
    square = (batch, heads, rows, rows)
    scores = graph.inner("MatMul", f"{p}.scores", [q, k], square)
    scores = graph.inner("Div", f"{p}.scaled", [scores, graph.constant(f"{p}.root", np.float32(np.sqrt(inner)))], square)
    if operator.causal:
        later = np.triu(np.full((1, 1, rows, rows), UNSEEN, np.float32), 1)
        scores = graph.inner("Add", f"{p}.masked", [scores, graph.constant(f"{p}.mask", later)], square)
    shares = graph.inner("Softmax", f"{p}.shares", [scores], square, axis=-1)
    sums = graph.inner("MatMul", f"{p}.sums", [shares, v], (batch, heads, rows, inner))
    turned = graph.inner("Transpose", f"{p}.turned", [sums], (batch, rows, heads, inner), perm=(0, 2, 1, 3))
    joined = graph.constant(f"{p}.joined", np.array([0, 0, width], np.int64))
    dense(graph, p, graph.inner("Reshape", f"{p}.context", [turned, joined], (batch, rows, width)), width, parameters=f"{p}.{RESULT}")


PROJECTIONS, RESULT = ("queries", "keys", "values"), "result"


def _heads(graph: GraphNodes, x: str, apart: str, shape: Shape, turned: bool) -> str:
    """[batch, heads, rows, inner], or [batch, heads, inner, rows] where the product wants the rows last."""
    split = graph.inner("Reshape", f"{x}.apart", [x, apart], shape)
    perm = (0, 2, 3, 1) if turned else (0, 2, 1, 3)
    return graph.inner("Transpose", f"{x}.heads", [split], tuple(shape[axis] for axis in perm), perm=perm)


def _tokens(graph: GraphNodes, layer: Layer, first: bool) -> None:
    (x,), p = layer.inputs, layer.name
    batch, channels, height, width = graph.shapes[x]
    sizes = graph.constant(f"{p}.sizes", np.array([0, channels, height * width], np.int64))
    flat = graph.inner("Reshape", f"{p}.flat", [x, sizes], (batch, channels, height * width))
    if not first:
        graph.last("Transpose", layer, [flat], perm=(0, 2, 1))
        return
    rows = graph.inner("Transpose", f"{p}.rows", [flat], (batch, height * width, channels), perm=(0, 2, 1))
    graph.last("Concat", layer, [*graph.own(p, {"first": (1, 1, channels)}), rows], axis=1)


def _strip(graph: GraphNodes, layer: Layer) -> None:
    (x,), p = layer.inputs, layer.name
    batch, rows, width = graph.shapes[x]
    turned = graph.inner("Transpose", f"{p}.turned", [x], (batch, width, rows), perm=(0, 2, 1))
    graph.last("Unsqueeze", layer, [turned, graph.constant(f"{p}.axis", np.array([3], np.int64))])


def _gated(graph: GraphNodes, layer: Layer) -> None:
    p, shape = layer.name, layer.shape
    kept, gate = graph.several("Split", f"{p}.halves", layer.inputs, {f"{p}.kept": shape, f"{p}.gate": shape}, axis=-1, num_outputs=2)
    graph.last("Mul", layer, [kept, graph.inner("Sigmoid", f"{p}.open", [gate], shape)])


def _interaction(graph: GraphNodes, layer: Layer) -> None:
    (vector, others), p = layer.inputs, layer.name
    batch, rows, width = graph.shapes[others]
    count = rows + 1
    sizes = graph.constant(f"{p}.sizes", np.array([0, 1, width], np.int64))
    row = graph.inner("Reshape", f"{p}.row", [vector, sizes], (batch, 1, width))
    every = graph.inner("Concat", f"{p}.vectors", [row, others], (batch, count, width), axis=1)
    turned = graph.inner("Transpose", f"{p}.turned", [every], (batch, width, count), perm=(0, 2, 1))
    products = graph.inner("MatMul", f"{p}.products", [every, turned], (batch, count, count))
    flat = graph.inner("Flatten", f"{p}.flat", [products], (batch, count * count), axis=1)
    left, right = np.tril_indices(count, -1)
    pairs = graph.constant(f"{p}.pairs", (left * count + right).astype(np.int64))
    graph.last("Concat", layer, [vector, graph.inner("Gather", f"{p}.below", [flat, pairs], (batch, len(left)), axis=1)], axis=1)


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
