"""Recurrent layers: LSTM, GRU and RNN split into one product of all steps' inputs, which a machine may take, and steps for the host; and made
whole again where the host computes the products as well."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, note_reasons, note_refusals, reasons_of, refusals_of
from toolchain.graph.integers.functions import FUSED, is_integer, kind_of
from toolchain.graph.recurrences import RECURRENCE, RecurrentLayer, is_loop, layer_of, loops_of, products_of, release, starts_of, step_of
from toolchain.graph.rewrite import (
    Array,
    add_constant,
    constant,
    drop_unused_constants,
    fresh_name,
    is_operator,
    known_shape,
    replace_value,
    reshape_node,
    shape_of,
)
from toolchain.passes.context import Context, Pass, wish_for
from toolchain.passes.fuse import sources_of, unknown
from toolchain.spec.reasons import Why

PARTS = "tilewright.parts"
"""Metadata of a layer that is whole again: the nodes that it was split into."""


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


def _split(graph: ir.Graph, layer: RecurrentLayer) -> None:
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


def _products(graph: ir.Graph, layer: RecurrentLayer, rows: ir.Value) -> ir.Value:
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


def parts_of(node: ir.Node) -> list[str]:
    """The names of the nodes that a layer was split into; none for other nodes."""
    return node.metadata_props[PARTS].split("\n") if PARTS in node.metadata_props else []


@dataclass(frozen=True)
class _Product:
    """The product of the inputs of all steps, on the host in floating point. node: has the reasons. weights: [directions * gates * hidden, size]."""

    node: ir.Node
    rows: ir.Value
    weights: Array
    bias: Array | None


def join_recurrent(model: ir.Model, placed: Collection[ir.Node], context: Context) -> None:
    """placed: nodes that are in regions."""
    for products, parts in _loops(model.graph).items():
        product, outputs = _product_of(products, placed), _outputs(model.graph, parts[0])
        hosts = all(_is_host(value.producer(), placed) for value in outputs.values())
        if product is not None and outputs and hosts and _has_starts(parts, placed):
            _join(model.graph, product, parts, outputs, context)
    drop_unused_constants(model.graph)


def join_as(model: ir.Model, partitioned: ir.Model) -> ir.Model:
    """Makes layers of the stage before partitioning whole that are whole after it: sums of loops have another order, so that results would differ."""
    whole = {node.name for node in partitioned.graph if PARTS in node.metadata_props}
    split = [node for parts in _loops(model.graph).values() if _told(parts[0])["name"] not in whole for node in parts]
    makers = {products_of(loop).producer() for loop in split}
    join_recurrent(model, {node for node in makers if node is not None}, Context())
    return model


def _loops(graph: ir.Graph) -> dict[ir.Value, list[ir.Node]]:
    """The loops of each layer, by the products that they add."""
    loops: dict[ir.Value, list[ir.Node]] = {}
    for node in graph:
        if is_loop(node):
            loops.setdefault(products_of(node), []).append(node)
    return loops


def _has_starts(loops: Sequence[ir.Node], placed: Collection[ir.Node]) -> bool:
    """Whether the states before the first step of all directions are one tensor still."""
    computed = [value for value in starts_of(loops[0]) if constant(value) is None]
    makers = [value.producer() for value in computed]
    return len(loops) == 1 or all(maker is not None and is_operator(maker, "Split") and _is_host(maker, placed) for maker in makers)


def _is_host(node: ir.Node | None, placed: Collection[ir.Node]) -> bool:
    return node is not None and node not in placed and not is_integer(node)


def _product_of(value: ir.Value, placed: Collection[ir.Node]) -> _Product | None:
    """None where a machine makes it, or where it is no product with constants."""
    node = value.producer()
    if node is None or not _is_host(node, placed):
        return None
    if node.domain == FUSED and kind_of(node) == "linear":
        return _known(node, node, constant(node.inputs[1]), constant(node.inputs[2]))
    if not is_operator(node, "Add"):
        return _known(node, node, _turned(node), None)
    product, bias = (node.inputs[0].producer() if node.inputs[0] is not None else None), constant(node.inputs[1])
    return None if product is None or bias is None or not _is_host(product, placed) else _known(node, product, _turned(product), bias)


def _turned(node: ir.Node) -> Array | None:
    weights = constant(node.inputs[1]) if is_operator(node, "MatMul") else None
    return None if weights is None else weights.T


def _known(node: ir.Node, product: ir.Node, weights: Array | None, bias: Array | None) -> _Product | None:
    rows = product.inputs[0]
    return None if rows is None or weights is None else _Product(node, rows, weights, bias)


def _told(loop: ir.Node) -> Mapping[str, Any]:
    return json.loads(loop.metadata_props[RECURRENCE])


def _outputs(graph: ir.Graph, loop: ir.Node) -> dict[int, ir.Value]:
    """The tensors of the layer, by their number, which keep their names through all stages; without those that are not read."""
    numbers = {name: number for number, name in enumerate(_told(loop)["outputs"]) if name}
    made = (value for node in graph for value in node.outputs)
    return {numbers[value.name]: value for value in made if value.name in numbers}


def _join(graph: ir.Graph, product: _Product, loops: Sequence[ir.Node], outputs: Mapping[int, ir.Value], context: Context) -> None:
    told, first = _told(loops[0]), loops[0]
    name, count = str(told["name"]), max(outputs, default=0) + 1
    inputs = _operands(graph, product, loops, name)
    node = ir.node(str(told["operator"]), inputs, told["attributes"], name=name, num_outputs=count)
    node.metadata_props.update({key: text for key, text in first.metadata_props.items() if key != RECURRENCE})
    for number, made in enumerate(node.outputs):
        made.name = made.name if number in outputs else ""
    graph.insert_before(first, node)
    left = [_replace(outputs[number], made) for number, made in enumerate(node.outputs) if number in outputs]
    node.metadata_props[PARTS] = "\n".join(name for gone in _remove(graph, left) for name in sources_of(gone))
    note_reasons(node, *_reasons(node, product, context))
    note_refusals(node, refusals_of(product.node))


def _reasons(node: ir.Node, product: _Product, context: Context) -> Reasons:
    """Why the host computes a layer as a whole, and why the product; that it would take longer, the layer's own prices say."""
    own, against = unknown(node, context.device), reasons_of(product.node)
    slow = all(Why.LOSS.gave(reason) or Why.DEARER.gave(reason) for reason in against)
    return (own,) if slow and Why.RECURRENT.gave(own) else (own, *against)


def _replace(old: ir.Value, made: ir.Value) -> ir.Node | None:
    """Lets readers of a tensor read another one of its name; the node that made it."""
    maker, made.shape, made.type = old.producer(), old.shape, old.type
    replace_value(old, made)
    return maker


def _operands(graph: ir.Graph, product: _Product, loops: Sequence[ir.Node], name: str) -> list[ir.Value | None]:
    """As the operator has them."""
    steps, size = shape_of(product.rows)[1:]
    x = _sequence(graph, product.rows, (steps, 1, size), f"{name}.x", loops[0])
    each = [step_of(loop) for loop in loops]
    after = np.concatenate([step.bias for step in each])
    before = np.zeros_like(after) if product.bias is None else product.bias.reshape(after.shape)
    weights = np.ascontiguousarray(product.weights.reshape(len(loops), -1, size))
    known = {"weights": weights, "states": np.concatenate([step.states for step in each]), "bias": np.concatenate([before, after], 1)}
    constants = [add_constant(graph, f"{name}.{key}", array) for key, array in known.items()]
    starts = [_start(graph, parts, name) for parts in zip(*(starts_of(loop) for loop in loops), strict=True)]
    holes = [step.peepholes for step in each if step.peepholes is not None]
    return [x, *constants, None, *starts, *([add_constant(graph, f"{name}.peepholes", np.concatenate(holes))] if holes else [])]


def _sequence(graph: ir.Graph, rows: ir.Value, size: tuple[int, ...], name: str, before: ir.Node) -> ir.Value:
    """The rows as the operator has its inputs; the tensor that was reshaped to them, where it is just that."""
    maker = rows.producer()
    source = maker.inputs[0] if maker is not None and is_operator(maker, "Reshape") else None
    return source if source is not None and known_shape(source) == size else reshaped(graph, rows, size, name, before)


def _start(graph: ir.Graph, parts: Sequence[ir.Value], name: str) -> ir.Value | None:
    """A state before the first step, of all directions; none where it is zero."""
    known = [array for part in parts if (array := constant(part)) is not None]
    if len(known) == len(parts):
        return add_constant(graph, f"{name}.start", np.concatenate(known)) if any(array.any() for array in known) else None
    maker = parts[0].producer()
    return parts[0] if len(parts) == 1 or maker is None else maker.inputs[0]


def _remove(graph: ir.Graph, nodes: Sequence[ir.Node | None]) -> list[ir.Node]:
    """Removes nodes that nothing reads, and then those that they alone read; answers with all of them."""
    left, gone = [*nodes], list[ir.Node]()
    while left:
        found = left.pop()
        if found is None or found.graph is None or any(value.uses() or value.is_graph_output() for value in found.outputs):
            continue
        left += [value.producer() for value in found.inputs if value is not None]
        if is_loop(found):
            release(found)
        graph.remove(found, safe=True)
        gone.append(found)
    return gone
