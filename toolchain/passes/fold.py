"""Folding: nodes that depend on no input are computed at build time.

Batch norm, and products and sums with one constant a channel, go into the weights before them, or into those after them.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.importing.fold_nodes import RANDOM
from toolchain.graph.importing.versions import IR_VERSION
from toolchain.graph.operators import Vector, affine_of, per_channel
from toolchain.graph.rewrite import (
    ONNX_DOMAINS,
    add_constant,
    captured,
    constant,
    drop_unused_constants,
    integer,
    ints,
    is_operator,
    known_shape,
    multiplied,
    real,
    replace_value,
    single_use,
    text,
)
from toolchain.graph.session import ONCE, open_session, run_session
from toolchain.passes.context import Context, Pass
from toolchain.spec.arrays import Array


@dataclass(frozen=True)
class FoldConstants(Pass):
    """max_bytes: results larger than this are left to be computed when the model runs."""

    name: ClassVar[str] = "fold_constants"
    requires: ClassVar[tuple[str, ...]] = ()
    ensures: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)
    max_bytes: int = 1 << 30

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        graph = model.graph
        for node in list(graph):
            _fold_simple(graph, node, self.max_bytes)
        _fold_rest(graph, self.max_bytes, model.ir_version or IR_VERSION)
        drop_unused_constants(graph)
        return model


def _fold_simple(graph: ir.Graph, node: ir.Node, max_bytes: int) -> None:
    """Constants, shapes and fills need nobody to compute them; a fill keeps one element in memory."""
    array: Array | None = None
    if is_operator(node, "Constant"):
        array = _stored(node)
    elif is_operator(node, "Shape") and (shape := known_shape(node.inputs[0])) is not None:
        start, end = node.attributes.get("start"), node.attributes.get("end")
        array = np.array(shape[start.as_int() if start else None : end.as_int() if end else None], np.int64)
    elif is_operator(node, "ConstantOfShape") and (sizes := constant(node.inputs[0])) is not None:
        fill = node.attributes.get("value")
        one, shape = fill.as_tensor().numpy().reshape(()) if fill else np.zeros((), np.float32), tuple(int(size) for size in sizes)
        if min(shape, default=0) >= 0 and math.prod(shape) * one.itemsize <= max_bytes:
            array = np.broadcast_to(one, shape)
    if array is not None:
        _replace(graph, node, array)


def kept_constant(node: ir.Node) -> bool:
    """Whether a Constant stays a node: an output of the graph, or one that is no dense tensor."""
    return node.outputs[0].is_graph_output() or _stored(node) is None


def _stored(node: ir.Node) -> Array | None:
    name, attribute = next(iter(node.attributes.items()))
    kinds: dict[str, type[np.generic]] = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if name == "value":
        return attribute.as_tensor().numpy()
    return np.asarray(attribute.value, kinds[name]) if name in kinds else None


def _replace(graph: ir.Graph, node: ir.Node, array: Array) -> None:
    output = node.outputs[0]
    if not output.is_graph_output():
        output.replace_all_uses_with(add_constant(graph, output.name or "constant", array, instead=True))
        graph.remove(node, safe=True)


def _fold_rest(graph: ir.Graph, max_bytes: int, ir_version: int) -> None:
    """All other constant nodes in one run of ONNX Runtime."""
    folded, known = list[ir.Node](), set[ir.Value]()
    for node in graph:
        plain = bool(node.inputs) and node.domain in ONNX_DOMAINS and not is_operator(node, *RANDOM) and not captured(node)
        if plain and _small(node, max_bytes) and all(v is None or v in known or v.is_initializer() for v in node.inputs):
            folded.append(node)
            known.update(node.outputs)
    inside = set(folded)
    made = [value for node in folded for value in node.outputs if not value.is_graph_output()]
    wanted = [value for value in made if any(user not in inside for user, _ in value.uses())]
    if not wanted:
        return
    wanted.sort(key=lambda value: value.name or "")
    results = _compute(graph, folded, wanted, ir_version)
    for value in wanted:
        value.replace_all_uses_with(add_constant(graph, f"{value.name}.folded", results[value.name or ""]))
    for node in reversed(folded):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)


def _small(node: ir.Node, max_bytes: int) -> bool:
    shapes = [known_shape(value) for value in node.outputs if value.name]
    return all(shape is not None and math.prod(shape) * 8 <= max_bytes for shape in shapes)


def _compute(graph: ir.Graph, nodes: list[ir.Node], wanted: list[ir.Value], ir_version: int) -> dict[str, Array]:
    inside = set(nodes)
    view = ir.GraphView(
        inputs=(),
        outputs=wanted,
        nodes=nodes,
        initializers=[value for value in graph.initializers.values() if any(user in inside for user, _ in value.uses())],
        opset_imports=graph.opset_imports,
        name="constants",
    )
    copy = view.clone()
    for value in copy.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = ir.Tensor(value.const_value.numpy(), name=value.name)
    proto = ir.to_proto(ir.Model(copy, ir_version=ir_version))
    return run_session(open_session(proto.SerializeToString(), optimise=False, threads=ONCE), {})


SPREAD = 4.0
"""Factors of channels that a layer takes in: the largest over the least."""


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """Unite a chain of scales that follows no convolution or dense layer. The one that stays goes into the convolution that alone reads it; a
    template may make a convolution of any other."""

    name: ClassVar[str] = "fold_batch_norm"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)
    ensures: ClassVar[tuple[str, ...]] = ("no_batch_norm",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        graph = model.graph
        for node in list(graph):
            found = affine_of(node)
            if found is not None and foldable(found[0]):
                _fold(graph, node, *found)
            elif found is not None:
                _unite(graph, node, *found)
        for node in list(graph):
            found = affine_of(node)
            if found is not None and _reader(node, *found) is not None:
                _fold_ahead(graph, node, *found)
        drop_unused_constants(graph)
        return model


def foldable(value: ir.Value) -> bool:
    """Whether a tensor comes from a layer with constant weights and is read once, so that a scale of its channels can go into them."""
    maker = value.producer()
    return maker is not None and single_use(value) and _bias(maker) is not None


def _unite(graph: ir.Graph, node: ir.Node, value: ir.Value, a: Vector, b: Vector) -> None:
    """With the one before it: a (c x + d) + b becomes (a c) x + (a d + b), in float64, rounded once."""
    before = value.producer()
    found = affine_of(before) if before is not None and single_use(value) else None
    if before is None or found is None or found[0].dtype != value.dtype or len(known_shape(value) or ()) != 4:
        return
    inner, c, d = found
    dtype, name = (value.dtype or ir.DataType.FLOAT).numpy(), node.name or node.outputs[0].name or "scale"
    scale, offset = a * c, a * d + b
    if not np.isfinite([scale, offset]).all():
        return
    parts = {"scale": scale, "offset": offset, "mean": np.zeros_like(a), "variance": np.ones_like(a)}
    known = [add_constant(graph, f"{name}.{part}", vector.astype(dtype)) for part, vector in parts.items()]
    made = ir.node("BatchNormalization", [inner, *known], {"epsilon": 0.0}, name=node.name, num_outputs=1)
    made.outputs[0].shape, made.outputs[0].type = node.outputs[0].shape, node.outputs[0].type
    graph.insert_after(node, made)
    replace_value(node.outputs[0], made.outputs[0])
    graph.remove([node, before], safe=True)


def _reader(node: ir.Node, value: ir.Value, a: Vector, b: Vector) -> ir.Node | None:
    """The convolution that alone reads an affine node's result and can take it in; None where there is none.

    Zeros around a picture are zeros after the offset: with one, there may be none. Channels of very unlike factors stay apart from the weights, which
    share a scale.
    """
    result = node.outputs[0]
    layer = next((node for node, _ in result.uses()), None) if single_use(result) else None
    if layer is None or not is_operator(layer, "Conv") or layer.inputs[0] is not result or _bias(layer) is None or value.dtype != result.dtype:
        return None
    padded = any(ints(layer, "pads", ())) or text(layer, "auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    factors = np.abs(a)
    alike = np.isfinite([a, b]).all() and 0 < factors.max() <= SPREAD * factors.min()
    return layer if alike and not (padded and b.any()) else None


def _fold_ahead(graph: ir.Graph, node: ir.Node, value: ir.Value, a: Vector, b: Vector) -> None:
    """In float64, rounded once; w (a x + b) + c becomes (w a) x + (c + w b)."""
    layer = _reader(node, value, a, b)
    assert layer is not None
    assert layer.inputs[1] is not None
    weights, bias, group = constant(layer.inputs[1]), _bias(layer), integer(layer, "group", 1)
    assert weights is not None
    assert bias is not None
    rows = (group, len(weights) // group, weights.shape[1], *(1,) * (weights.ndim - 2))
    scale, offset = (np.broadcast_to(v.reshape(group, 1, -1, *rows[3:]), rows).reshape(len(weights), *rows[2:]) for v in (a, b))
    moved = (weights * offset).reshape(len(weights), -1).sum(1)
    name = layer.inputs[1].name or "weight"
    layer.replace_input_with(1, add_constant(graph, f"{name}.folded", multiplied(weights, scale)))
    if len(layer.inputs) < 3:
        layer.resize_inputs(3)
    layer.replace_input_with(2, add_constant(graph, f"{name}.bias", (bias + moved).astype(weights.dtype)))
    layer.replace_input_with(0, value)
    graph.remove(node, safe=True)


def _bias(node: ir.Node) -> Vector | None:
    """The constant that a convolution or dense layer adds to each channel; None for any other node."""
    shape = known_shape(node.outputs[0])
    plain = is_operator(node, "Conv") or (is_operator(node, "Gemm") and real(node, "beta", 1.0) == 1.0)
    if not plain or shape is None or any(constant(value) is None for value in node.inputs[1:] if value is not None):
        return None
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if bias is None:
        return np.zeros(shape[1])
    return bias.astype(np.float64) if is_operator(node, "Conv") else per_channel(bias, shape)


def _fold(graph: ir.Graph, node: ir.Node, value: ir.Value, a: Vector, b: Vector) -> None:
    """In float64, rounded once; y = w x + c becomes a w x + (a c + b)."""
    layer = value.producer()
    assert layer is not None
    assert layer.inputs[1] is not None
    weights, bias = constant(layer.inputs[1]), _bias(layer)
    assert weights is not None
    assert bias is not None
    columns = is_operator(layer, "Gemm") and not integer(layer, "transB", 0)
    factors = a.reshape((1, -1) if columns else (-1, *(1,) * (weights.ndim - 1)))
    name = layer.inputs[1].name or "weight"
    layer.replace_input_with(1, add_constant(graph, f"{name}.folded", multiplied(weights, factors)))
    if len(layer.inputs) < 3:
        layer.resize_inputs(3)
    layer.replace_input_with(2, add_constant(graph, f"{name}.bias", (bias * a + b).astype(weights.dtype)))
    replace_value(node.outputs[0], value)
    graph.remove(node, safe=True)
