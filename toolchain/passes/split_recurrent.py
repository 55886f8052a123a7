"""Splits LSTM, GRU and RNN: the products with all steps' inputs become one matrix product, which a machine may take; the host makes the steps.

A layer whose product stays on the host becomes whole again when regions are made (see join_recurrent).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.recurrences import Layer, layer_of, loops_of
from toolchain.graph.rewrite import add_constant, drop_unused_constants, fresh_name, replace_value, reshape_node
from toolchain.passes.context import Context, Pass, wish_for


@dataclass(frozen=True)
class SplitRecurrent(Pass):
    """A layer that the user places stays whole, as do others than `layer_of` reads."""

    name: ClassVar[str] = "split_recurrent"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        for node in list(model.graph):
            layer = None if wish_for([node], context.wishes) else layer_of(node)
            if layer is not None:
                _split(model.graph, layer)
        drop_unused_constants(model.graph)
        return model


def _split(graph: ir.Graph, layer: Layer) -> None:
    node = layer.node
    rows = reshaped(graph, layer.x, (1, layer.sizes.steps, layer.sizes.size), f"{node.name}.rows", node)
    loops = loops_of(graph, layer, _products(graph, layer, rows))
    graph.insert_before(node, loops)
    for number, value in enumerate(layer.outputs):
        if not value.uses() and not value.is_graph_output():
            continue
        parts = [loop.outputs[number - 1 if number else -1] for loop in loops]
        parts = parts if len(parts) == 1 else [_joined(graph, node, number, parts)]
        replace_value(value, parts[0])
    graph.remove(node, safe=True)


def _joined(graph: ir.Graph, node: ir.Node, number: int, parts: Sequence[ir.Value]) -> ir.Value:
    """One tensor of both directions. number: of the output, of which the first is [steps, directions, 1, hidden]."""
    name = fresh_name(graph, f"{node.name}.directions.{number}")
    made = ir.node("Concat", parts, {"axis": 0 if number else 1}, name=name, num_outputs=1)
    made.outputs[0].shape, made.outputs[0].type = node.outputs[number].shape, node.outputs[number].type
    graph.insert_before(node, made)
    return made.outputs[0]


def reshaped(graph: ir.Graph, value: ir.Value, size: tuple[int, ...], name: str, before: ir.Node) -> ir.Value:
    """Puts a Reshape in front of a node; its result is called as it is."""
    made = reshape_node(graph, value, size, name)
    graph.insert_before(before, made)
    return made.outputs[0]


def _products(graph: ir.Graph, layer: Layer, rows: ir.Value) -> ir.Value:
    """The products of all steps and directions, with the bias of the inputs: [1, steps, directions * gates * hidden]."""
    name, sizes = f"{layer.node.name}.inputs", layer.sizes
    weights = np.ascontiguousarray(layer.weights.reshape(-1, sizes.size).T)
    made = [ir.node("MatMul", [rows, add_constant(graph, f"{name}.weights", weights)], name=fresh_name(graph, name), num_outputs=1)]
    if layer.biases is not None:
        bias = add_constant(graph, f"{name}.bias", np.ascontiguousarray(layer.biases[0].reshape(-1)))
        made.append(ir.node("Add", [made[0].outputs[0], bias], name=fresh_name(graph, f"{name}.sum"), num_outputs=1))
    for node in made:
        result = node.outputs[0]
        result.name, result.shape, result.type = node.name, ir.Shape([1, sizes.steps, weights.shape[1]]), rows.type
        node.metadata_props.update(layer.node.metadata_props)
    graph.insert_before(layer.node, made)
    return made[-1].outputs[0]
