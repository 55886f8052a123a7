"""Takes the rounding of QuantizeLinear and DequantizeLinear pairs out of a model that was quantised elsewhere; the limits of their clipping stay.

Quantisers leave out a Relu or Clip where the zero point and the type of the stored integers saturate at the same place (ONNX Runtime's
static quantiser does), so a pair stands for a Clip unless its operand is proven to lie inside."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.equivalence import STEP
from toolchain.graph.integers.calls import FLOAT_NAME, SCALE, integer_tensors
from toolchain.graph.operators import ANY, Interval, interval_of, limits_of, stored_interval
from toolchain.graph.quantisation.ranges import Spread
from toolchain.graph.quantisation.table import SeenTensor, Table
from toolchain.graph.rewrite import clip, constant, drop_unused_constants, is_operator, replace_value, single_use, substitute
from toolchain.passes.context import Context, Pass

RANGE = "tilewright.range"
"""Metadata of a tensor: the largest magnitude, the least and the largest value that the model's own quantisation kept, and its scale, as floats'
hexadecimal texts.

The magnitude is that of a machine whose zero stands in the middle.
"""
SAME = 1e-6
"""Relative difference of a scale and of the same worked out from a range of float32."""
REACH = 128 / 127
"""Share of the largest integer that the least one reaches: where zero stands in the middle, the model's own scale is kept."""
COPYING = ("MaxPool", "Concat", "Resize", "Pad", "Flatten", "Reshape", "Squeeze", "Relu", "Clip")


@dataclass(frozen=True)
class RemoveQdq(Pass):
    """After constants are folded, only the pairs on activations are left; weights came out as the floats that their integers stand for."""

    name: ClassVar[str] = "remove_qdq"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)
    ensures: ClassVar[tuple[str, ...]] = ()

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        graph = model.graph
        for node in [node for node in graph if is_operator(node, "QuantizeLinear")]:
            _remove(graph, node)
        drop_unused_constants(graph)
        return model


def _remove(graph: ir.Graph, node: ir.Node) -> None:
    """A pair with one scale for the whole tensor; any other stays on the host."""
    source, stored, scale = node.inputs[0], node.outputs[0], constant(node.inputs[1])
    readers = [user for user, _ in stored.uses()]
    kept = stored_interval(node)
    single = scale is not None and scale.size == 1 and kept != ANY
    if source is None or scale is None or not single or not readers or stored.is_graph_output() or not all(_undoes(node, user) for user in readers):
        return
    step = float(scale.reshape(()))
    ends = (max(-kept.low / REACH, kept.high), kept.low, kept.high, step)
    marks = {RANGE: " ".join(end.hex() for end in ends), STEP: step.hex()}
    result = readers[0].outputs[0]
    for user in readers[1:]:
        if user.outputs[0].is_graph_output():
            return
        replace_value(user.outputs[0], result, rename=False)
        graph.remove(user, safe=True)
    result.metadata_props.update(marks)
    _replace(graph, readers[0], source, kept)
    graph.remove(node, safe=True)


def _undoes(quantize: ir.Node, node: ir.Node) -> bool:
    """Whether a node turns the stored integers back into floats, by the same scale and zero point."""
    same = all(_equal(a, b) for a, b in zip(quantize.inputs[1:3], node.inputs[1:3], strict=False))
    return is_operator(node, "DequantizeLinear") and same and len(quantize.inputs) == len(node.inputs)


def _equal(one: ir.Value | None, other: ir.Value | None) -> bool:
    a, b = constant(one), constant(other)
    return one is other or (a is not None and b is not None and np.array_equal(a, b))


def _replace(graph: ir.Graph, node: ir.Node, source: ir.Value, kept: Interval) -> None:
    """A Clip in place of the last node of a pair; none where the operand lies inside, comes from a node, and has no other reader."""
    output, maker = node.outputs[0], source.producer()
    alone = maker is not None and not source.is_graph_output() and len(source.uses()) == 1
    if alone and kept.holds(interval_of(source)):
        replace_value(output, source)
        graph.remove(node, safe=True)
    else:
        made = clip(graph, source, kept, node.name or output.name or "", (f"{output.name}.low", f"{output.name}.high"))
        substitute(graph, [node], [made])


def declares_ranges(model: ir.Model) -> bool:
    """Whether a tensor of a float model has the range that the model's own quantisation kept."""
    values = (*model.graph.inputs, *(value for node in model.graph for value in node.outputs))
    return any(RANGE in value.metadata_props for value in values)


def keeps_scales(model: ir.Model, integer: ir.Model) -> bool:
    """Whether every tensor that an integer model stores, and whose scale the quantised float model declares, has that very scale."""
    values = (*model.graph.inputs, *(value for node in model.graph for value in node.outputs))
    declared = {value.name: _declared(value)[-1] for value in values if RANGE in value.metadata_props}
    stored = [(value.metadata_props[FLOAT_NAME], float.fromhex(value.metadata_props[SCALE])) for value in integer_tensors(integer)]
    return all(math.isclose(scale, declared[name], rel_tol=SAME) for name, scale in stored if name in declared)


def qdq_table(model: ir.Model) -> Table:
    """A calibration table out of the ranges that RemoveQdq kept; operators that only move values hand them on."""
    ranges: dict[str, Spread] = {}
    for value in model.graph.inputs:
        if RANGE in value.metadata_props:
            ranges[value.name or ""] = _kept(value)
    for node in model.graph:
        given = [ranges[value.name] for value in node.inputs if value is not None and value.name in ranges]
        for value in node.outputs:
            if RANGE in value.metadata_props:
                ranges[value.name or ""] = _kept(value)
            elif given and is_operator(node, *COPYING, "AveragePool", "GlobalAveragePool"):
                ranges[value.name or ""] = Spread(max(s.maximum for s in given), (), min(s.least for s in given), max(s.most for s in given))
    return Table(0, {name: SeenTensor(spread, ()) for name, spread in sorted(ranges.items())})


def _kept(value: ir.Value) -> Spread:
    """Interval of a tensor that the model's own quantisation keeps."""
    largest, low, high, _ = _declared(value)
    return Spread(largest, (), low, high)


def _declared(value: ir.Value) -> tuple[float, ...]:
    return tuple(float.fromhex(text) for text in value.metadata_props[RANGE].split())


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
