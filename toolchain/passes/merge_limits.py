"""Makes one Clip of limits that follow each other: a ReLU or Clip of the model's own, and the range of its quantised form."""

import math
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.equivalence.intervals import Interval, limits_of
from toolchain.graph.equivalence.piecewise import STEP
from toolchain.graph.nodes.rewrite import clip, drop_unused_constants, single_use, substitute
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


def _merge(graph: ir.Graph, first: ir.Node, second: ir.Node, both: Interval) -> None:
    source, output = first.inputs[0], second.outputs[0]
    if source is None:
        return
    if both == Interval(0.0, math.inf):
        made = ir.node("Relu", [source], name=second.name, num_outputs=1)
    else:
        made = clip(graph, source, both, second.name or "", (f"{output.name}.low", f"{output.name}.high"))
    _hand_on(source=first.outputs[0], result=output)
    substitute(graph, [second, first], [made])


def _hand_on(source: ir.Value, result: ir.Value) -> None:
    """Hands on the facts of a quantised model's own tensor that goes: both of two roundings are in the result, the range of the later one holds."""
    inner, outer = source.metadata_props, result.metadata_props
    if STEP in inner:
        outer[STEP] = (float.fromhex(inner[STEP]) + float.fromhex(outer.get(STEP, "0x0p+0"))).hex()
    if RANGE in inner:
        outer.setdefault(RANGE, inner[RANGE])
