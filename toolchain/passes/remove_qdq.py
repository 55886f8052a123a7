"""Takes the QuantizeLinear and DequantizeLinear pairs out of a model that was quantised elsewhere, and keeps their ranges."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.calibration import Seen, Table
from toolchain.graph.histogram import Spread
from toolchain.graph.rewrite import bypass, constant, drop_unused_constants, is_operator
from toolchain.passes.base import Pass
from toolchain.passes.context import Context

RANGE = "tilewright.range"
"""Metadata of a tensor: the largest magnitude that the model's own quantisation kept, as a float's hexadecimal text."""
COPYING = ("MaxPool", "Concat", "Resize", "Pad", "Flatten", "Reshape", "Squeeze", "Relu", "Clip")


@dataclass(frozen=True)
class RemoveQdq(Pass):
    """After constants are folded, only the pairs on activations are left; weights came out as what their integers stand for."""

    name: ClassVar[str] = "remove_qdq"
    requires: ClassVar[tuple[str, ...]] = ("shapes_known", "no_constant_nodes")
    ensures: ClassVar[tuple[str, ...]] = ("shapes_known",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        graph = model.graph
        for node in [node for node in graph if is_operator(node, "QuantizeLinear")]:
            source, largest = node.inputs[0], _largest(node)
            readers = [user for user, _ in node.outputs[0].uses()]
            if (
                source is None
                or largest is None
                or node.outputs[0].is_graph_output()
                or not all(is_operator(user, "DequantizeLinear") for user in readers)
            ):
                continue
            source.metadata_props[RANGE] = largest.hex()
            for user in readers:
                bypass(graph, user, source)
            if not node.outputs[0].uses():
                graph.remove(node, safe=True)
        drop_unused_constants(graph)
        return model


def _largest(node: ir.Node) -> float | None:
    """The larger end of what the integers stand for; None where the scale is not one constant."""
    scale = constant(node.inputs[1])
    zero = constant(node.inputs[2]) if len(node.inputs) > 2 else np.zeros((), np.uint8)
    if scale is None or zero is None or scale.size != 1 or zero.dtype.kind not in "iu" or zero.dtype.itemsize > 2:
        return None
    limits, middle = np.iinfo(zero.dtype), int(zero.reshape(()))
    signed = zero.dtype.kind == "i" and middle == 0
    return float(scale.reshape(())) * (limits.max if signed else max(middle - limits.min, limits.max - middle))


def qdq_table(model: ir.Model) -> Table:
    """A calibration table out of the ranges that RemoveQdq kept; operators that only move values hand them on."""
    ranges: dict[str, float] = {}
    for value in model.graph.inputs:
        if RANGE in value.metadata_props:
            ranges[value.name or ""] = float.fromhex(value.metadata_props[RANGE])
    for node in model.graph:
        given = [ranges[value.name] for value in node.inputs if value is not None and value.name in ranges]
        for value in node.outputs:
            if RANGE in value.metadata_props:
                ranges[value.name or ""] = float.fromhex(value.metadata_props[RANGE])
            elif given and is_operator(node, *COPYING, "AveragePool", "GlobalAveragePool"):
                ranges[value.name or ""] = max(given)
    return Table(0, {name: Seen(Spread(largest, ()), ()) for name, largest in sorted(ranges.items())})
