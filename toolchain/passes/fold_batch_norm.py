"""Batch norm and its like go into the weights before them; what cannot becomes a convolution of its own."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.affine import Vector, affine_of
from toolchain.graph.rewrite import add_constant, bypass, constant, drop_unused_constants, integer, is_operator, real, shape_of, single_use
from toolchain.passes.base import Pass
from toolchain.passes.context import Context


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """diagonal: make a 1x1 convolution with one group a channel of every per-channel scale that has nothing to fold into."""

    name: ClassVar[str] = "fold_batch_norm"
    requires: ClassVar[tuple[str, ...]] = ("shapes_known", "no_constant_nodes")
    ensures: ClassVar[tuple[str, ...]] = ("no_batch_norm", "shapes_known")
    diagonal: bool = True

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        graph = model.graph
        for node in list(graph):
            found = affine_of(node)
            if found is None:
                continue
            value, a, b = found
            maker = value.producer()
            if maker is not None and single_use(value) and _weights(maker) is not None:
                _fold(graph, maker, a, b)
                bypass(graph, node, value)
            elif self.diagonal and len(shape_of(value)) == 4:
                _diagonal(graph, node, value, a, b)
        drop_unused_constants(graph)
        return model


def _weights(node: ir.Node) -> np.typing.NDArray[np.float32] | None:
    """The weights of a convolution or dense layer with constant parameters."""
    plain = is_operator(node, "Conv") or (is_operator(node, "Gemm") and real(node, "beta", 1.0) == 1.0)
    if not plain or any(constant(value) is None for value in node.inputs[1:] if value is not None):
        return None
    return constant(node.inputs[1])


def _fold(graph: ir.Graph, node: ir.Node, a: Vector, b: Vector) -> None:
    """In float64, rounded once; y = w x + c becomes a w x + (a c + b)."""
    weights = _weights(node)
    assert weights is not None
    assert node.inputs[1] is not None
    columns = is_operator(node, "Gemm") and not integer(node, "transB", 0)
    factors = a.reshape((1, -1) if columns else (-1, *(1,) * (weights.ndim - 1)))
    scaled = (weights.astype(np.float64) * factors).astype(np.float32)
    old = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    bias = (b if old is None else old.astype(np.float64).reshape(-1) * a + b).astype(np.float32)
    name = node.inputs[1].name or "weight"
    node.replace_input_with(1, add_constant(graph, f"{name}.folded", scaled))
    value = add_constant(graph, f"{name}.bias", np.broadcast_to(bias, a.shape).copy())
    if len(node.inputs) < 3:
        node.resize_inputs(3)
    node.replace_input_with(2, value)


def _diagonal(graph: ir.Graph, node: ir.Node, value: ir.Value, a: Vector, b: Vector) -> None:
    name, output = node.name or node.outputs[0].name or "scale", node.outputs[0]
    weights = add_constant(graph, f"{name}.diagonal", a.astype(np.float32).reshape(-1, 1, 1, 1))
    bias = add_constant(graph, f"{name}.bias", b.astype(np.float32))
    attributes = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": len(a)}
    made = ir.node("Conv", [value, weights, bias], attributes, name=name, num_outputs=1)
    made.outputs[0].shape, made.outputs[0].type = output.shape, output.type
    graph.insert_after(node, made)
    output.replace_all_uses_with(made.outputs[0], replace_graph_outputs=True)
    kept = output.name
    graph.remove(node, safe=True)
    made.outputs[0].name = kept
