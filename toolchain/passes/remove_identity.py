"""Takes out nodes that pass their input on unchanged."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.nodes.rewrite import bypass, constant, drop_unused_constants, is_operator, known_shape
from toolchain.passes.base import Pass
from toolchain.passes.context import Context

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
NEUTRAL: Mapping[str, int] = MappingProxyType({"Mul": 1, "Div": 1, "Add": 0, "Sub": 0})
"""The second operand with which an operator changes nothing; swish is exported with a product with one."""


@dataclass(frozen=True)
class RemoveIdentity(Pass):
    """Identity, products with one, sums with zero, inference Dropout, Pad by nothing, Concat and Sum of one, casts and reshapes to what is."""

    name: ClassVar[str] = "remove_identity"
    requires: ClassVar[tuple[str, ...]] = ()
    ensures: ClassVar[tuple[str, ...]] = ("no_identity",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for node in list(model.graph):
            if passes_through(node) and node.inputs[0] is not None:
                bypass(model.graph, node, node.inputs[0])
        drop_unused_constants(model.graph)
        return model


def passes_through(node: ir.Node) -> bool:
    """Whether the first output equals the first input and nothing else is read."""
    if not node.inputs or node.inputs[0] is None or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return False
    if is_operator(node, "Dropout"):
        training = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else np.False_
        return training is not None and not np.any(training)
    if is_operator(node, "Pad"):
        pads = constant(node.inputs[1])
        return pads is not None and not pads.any()
    if is_operator(node, *RESHAPES):
        return (before := known_shape(node.inputs[0])) is not None and before == known_shape(node.outputs[0])
    if is_operator(node, "Cast"):
        return node.inputs[0].dtype is not None and node.inputs[0].dtype == node.outputs[0].dtype
    if is_operator(node, *NEUTRAL) and (known := constant(node.inputs[1])) is not None:
        same = (before := known_shape(node.inputs[0])) is not None and before == known_shape(node.outputs[0])
        return same and bool(np.all(known == NEUTRAL[node.op_type]))
    return is_operator(node, "Identity") or (is_operator(node, "Concat", "Sum", "Max", "Min", "Mean") and len(node.inputs) == 1)
