"""Makes recurrent layers whole again whose products the host computes: it is fastest with one operator for all steps."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, note_reasons, note_refusals, reasons_of, refusals_of
from toolchain.graph.integers.functions import FUSED, is_integer, kind_of
from toolchain.graph.recurrences import RECURRENCE, is_loop, products_of, release, starts_of, step_of
from toolchain.graph.rewrite import (
    Array,
    add_constant,
    constant,
    drop_unused_constants,
    is_operator,
    known_shape,
    replace_value,
    shape_of,
)
from toolchain.passes.context import Context
from toolchain.passes.fuse import sources_of, unknown
from toolchain.passes.split_recurrent import reshaped
from toolchain.spec.reasons import Why

PARTS = "tilewright.parts"
"""Metadata of a layer that is whole again: the nodes that it was split into."""


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
