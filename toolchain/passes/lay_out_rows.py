"""A new row that takes the place of one in a cache [batch, rows, channels], as a condition says: written with flags along the last axis, as an
operation of machines reads them. The host makes them once for all layers."""

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, is_operator, known_shape, reshape_node, typed_node
from toolchain.passes.context import Device

OPERATION = "place_row"
SEQUENCE = 3
"""Axes of [batch, rows, channels]."""


def lay_out_rows(graph: ir.Graph, device: Device | None) -> None:
    """For a machine that places rows; without one they stay as they are."""
    if device is None or (device.computes is not None and OPERATION not in device.computes):
        return
    flags = dict[ir.Value, ir.Value]()
    for node in [node for node in graph if is_operator(node, "Where")]:
        condition = node.inputs[0]
        if condition is not None and _places(node, condition):
            if condition not in flags:
                flags[condition] = _flags(graph, node, condition)
            _lay_out(graph, node, flags[condition])


def _places(node: ir.Node, condition: ir.Value) -> bool:
    """Whether each row is one of a sequence, or the only one of another."""
    chosen, new, past = (known_shape(value) or () for value in node.inputs)
    result = known_shape(node.outputs[0]) or ()
    computed = not any(value is None or value.is_initializer() for value in node.inputs) and condition.dtype == ir.DataType.BOOL
    if not computed or len(result) != SEQUENCE or node.outputs[0].dtype != ir.DataType.FLOAT:
        return False
    batch, rows, channels = result
    return (chosen, new, past) == ((batch, rows, 1), (batch, 1, channels), result)


def _flags(graph: ir.Graph, node: ir.Node, condition: ir.Value) -> ir.Value:
    """1 for a row that is new, else 0: [batch, 1, rows]."""
    batch, rows, _ = known_shape(condition) or (1, 1, 1)
    row = reshape_node(graph, condition, (batch, 1, rows), f"{condition.name}.row")
    flags = typed_node(graph, "Cast", row.outputs, (batch, 1, rows), node.outputs[0].type, f"{condition.name}.flags", to=ir.DataType.FLOAT.value)
    graph.insert_before(node, [row, flags])
    return flags.outputs[0]


def _lay_out(graph: ir.Graph, node: ir.Node, flags: ir.Value) -> None:
    batch, _, rows = known_shape(flags) or (1, 1, 1)
    name, kind = node.outputs[0].name or "", ir.TensorType(ir.DataType.BOOL)
    axes = [add_constant(graph, f"{name}.{word}", np.array([axis], np.int64)) for word, axis in (("middle", 1), ("last", 2))]
    nothing = add_constant(graph, f"{name}.nothing", np.array(0, np.float32))
    line = typed_node(graph, "Squeeze", [flags, axes[0]], (batch, rows), flags.type, f"{name}.line")
    column = typed_node(graph, "Unsqueeze", [line.outputs[0], axes[1]], (batch, rows, 1), flags.type, f"{name}.column")
    new = typed_node(graph, "Greater", [column.outputs[0], nothing], (batch, rows, 1), kind, f"{name}.new")
    graph.insert_before(node, [line, column, new])
    node.replace_input_with(0, new.outputs[0])
