"""Makes one Clip of limits that follow each other: a ReLU or Clip of the model's own, and the range of its quantised form."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.equivalence import STEP
from toolchain.graph.intervals import Interval, limit
from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, is_operator, replace_value, single_use
from toolchain.passes.base import Pass
from toolchain.passes.context import Context
from toolchain.passes.remove_qdq import RANGE


@dataclass(frozen=True)
class MergeLimits(Pass):
    """Only where nothing else reads the tensor between, and the limits leave more than one value."""

    name: ClassVar[str] = "merge_limits"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        for node in list(model.graph):
            outer, value = limits_of(node), node.inputs[0] if node.inputs else None
            maker = None if value is None else value.producer()
            inner = None if maker is None else limits_of(maker)
            if outer is None or inner is None or maker is None or value is None or not single_use(value):
                continue
            both = Interval(max(inner.low, outer.low), min(inner.high, outer.high))
            if both.low < both.high:
                _merge(model.graph, maker, node, both)
        drop_unused_constants(model.graph)
        return model


def limits_of(node: ir.Node) -> Interval | None:
    """Of a ReLU, or of a Clip with constant limits; None for any other node."""
    if is_operator(node, "Relu"):
        return Interval(0.0, np.inf)
    if is_operator(node, "Clip") and all(value is None or constant(value) is not None for value in node.inputs[1:]):
        return Interval(limit(node, 1), limit(node, 2))
    return None


def _merge(graph: ir.Graph, first: ir.Node, second: ir.Node, both: Interval) -> None:
    source, output = first.inputs[0], second.outputs[0]
    if source is None:
        return
    dtype = (output.dtype or ir.DataType.FLOAT).numpy()
    if both == Interval(0.0, np.inf):
        made = ir.node("Relu", [source], name=second.name, num_outputs=1)
    else:
        ends = [add_constant(graph, f"{output.name}.{word}", np.array(end, dtype)) for word, end in zip(("low", "high"), both, strict=True)]
        made = ir.node("Clip", [source, *ends], name=second.name, num_outputs=1)
    made.outputs[0].shape, made.outputs[0].type = output.shape, output.type
    _hand_on(source=first.outputs[0], result=output)
    graph.insert_after(second, made)
    replace_value(output, made.outputs[0])
    graph.remove([second, first], safe=True)


def _hand_on(source: ir.Value, result: ir.Value) -> None:
    """What is known of a quantised model's own tensor that goes: both of two roundings are in the result, the range of the later one holds."""
    inner, outer = source.metadata_props, result.metadata_props
    if STEP in inner:
        outer[STEP] = (float.fromhex(inner[STEP]) + float.fromhex(outer.get(STEP, "0x0p+0"))).hex()
    if RANGE in inner:
        outer.setdefault(RANGE, inner[RANGE])
