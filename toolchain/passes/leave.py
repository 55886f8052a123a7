"""Leaves fused operations to the host, in floating point; an activation goes first, so that its convolution may still be the machine's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.calibration import Table
from toolchain.graph.calls import REASON, fused_call, read_call
from toolchain.graph.functions import FUSED, variant_of
from toolchain.graph.rewrite import add_constant, replace_value
from toolchain.graph.scales import tensors_of
from toolchain.passes.fuse import INNER, SOURCES

ACTIVATIONS = ("relu", "clip", "leaky")
SPLIT_KINDS = ("conv2d", "dense", "add")
"""Kinds that are worth keeping without their activation; an average of one pixel is nothing but it."""


def leave_unseen(model: ir.Model, table: Table) -> None:
    """Leaves calls with a tensor for which calibration found no range. Raises UserError E0918 later for one that it did not look at."""
    for node in model.graph:
        if node.domain == FUSED and REASON not in node.metadata_props:
            reason = _unseen(node, table)
            if reason:
                node.metadata_props[REASON] = reason


def _unseen(node: ir.Node, table: Table) -> str:
    if table.failure:
        return f"there are no ranges: {table.failure}"
    names = tensors_of(read_call(node))
    bad = next((name for name in names if name in table.unusable), None)
    if bad is not None:
        return f"a calibration sample made NaN or infinity of '{bad}'"
    undeclared = next((name for name in names if name not in table.tensors), None) if table.samples == 0 else None
    return "" if undeclared is None else f"the quantised model declares no range of '{undeclared}'"


def leave_calls(model: ir.Model, reasons: Mapping[str, str]) -> None:
    """reasons: by name of a fused call, why the machine does not take it."""
    for node in list(model.graph):
        reason = reasons.get(node.name or "")
        if node.domain != FUSED or reason is None or REASON in node.metadata_props:
            continue
        if read_call(node).kind in SPLIT_KINDS and variant_of(node) in ACTIVATIONS:
            _split(model, node, reason)
        else:
            node.metadata_props[REASON] = reason


def _split(model: ir.Model, node: ir.Node, reason: str) -> None:
    """The operation without its activation, and the activation as an operator of its own on the host."""
    graph, call, output = model.graph, read_call(node), node.outputs[0]
    plain = fused_call(model, call.kind, "", [value for value in node.inputs if value is not None], call.attributes, call.name)
    sources = node.metadata_props.get(SOURCES, "").split(" ")
    plain.metadata_props[SOURCES] = " ".join(sources[:-1] or sources)
    inner = plain.outputs[0]
    inner.name, inner.shape, inner.type = node.metadata_props.get(INNER) or f"{output.name}.before", output.shape, output.type
    active = _activation(graph, variant_of(node), call.attributes, inner, sources[-1] if len(sources) > 1 else f"{call.name}.activation")
    active.metadata_props[REASON] = reason
    active.outputs[0].shape, active.outputs[0].type = output.shape, output.type
    graph.insert_after(node, [plain, active])
    replace_value(output, active.outputs[0])
    graph.remove(node, safe=True)


def _activation(graph: ir.Graph, variant: str, attributes: Mapping[str, Any], value: ir.Value, name: str) -> ir.Node:
    if variant == "leaky":
        return ir.node("LeakyRelu", [value], {"alpha": float(attributes["alpha"])}, name=name, num_outputs=1)
    if variant == "relu":
        return ir.node("Relu", [value], name=name, num_outputs=1)
    dtype = (value.dtype or ir.DataType.FLOAT).numpy()
    limits = [add_constant(graph, f"{name}.{word}", np.array(attributes[word], dtype)) for word in ("minimum", "maximum")]
    return ir.node("Clip", [value, *limits], name=name, num_outputs=1)
