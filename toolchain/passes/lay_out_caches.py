"""Caches by heads on sequences: rows that move up in [batch, heads, rows, channels of a head], with new ones behind them, as exporters write them.

On sequences [batch, rows, channels] heads are channels side by side, so that the rows become one operation, and attention reads them there. A cache
itself stays by heads; between steps the sequence goes round in its place (`toolchain.graph.states`).

A new row that takes the place of one in a cache on sequences, as a condition says, is written with flags along the last axis, as an operation of
machines reads them.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import (
    BY_HEADS,
    add_constant,
    integer,
    ints,
    is_operator,
    known_shape,
    reshape_node,
    sliced,
    substitute,
    typed_node,
)
from toolchain.passes.context import Device

MOVES_UP, TAKES_PLACE = "append_rows", "place_row"
"""Operations of machines."""
SEQUENCE = 3
"""Axes of [batch, rows, channels]."""
ROWS, AXES = 2, 4
"""The axis of rows of a cache by heads, and how many it has."""


@dataclass(frozen=True)
class _Cache:
    """join: the Concat. kept: the Slice of the rows that stay. past: the cache before. first: the number of the first of those. new: the new rows, by
    heads as the cache."""

    join: ir.Node
    kept: ir.Node
    past: ir.Value
    first: int
    new: ir.Value

    @property
    def shape(self) -> tuple[int, ...]:
        return known_shape(self.join.outputs[0]) or ()


def lay_out_caches(graph: ir.Graph, device: Device | None) -> None:
    """For a machine that moves rows up; without one, caches stay as they are."""
    if device is None or not device.may_compute(MOVES_UP):
        return
    for node in list(graph):
        found = _find(node)
        if found is not None:
            _lay_out(graph, found)


def _find(node: ir.Node) -> _Cache | None:
    if not is_operator(node, "Concat") or len(node.inputs) != 2 or integer(node, "axis", 0) % AXES != ROWS:
        return None
    (before, new), kept = node.inputs, node.inputs[0].producer() if node.inputs[0] is not None else None
    if before is None or new is None or kept is None or not is_operator(kept, "Slice") or (past := kept.inputs[0]) is None:
        return None
    shape, first = known_shape(node.outputs[0]), _first_row(kept)
    return _Cache(node, kept, past, first, new) if first is not None and shape is not None and known_shape(past) == shape else None


def _first_row(node: ir.Node) -> int | None:
    """Where a Slice of four axes leaves out the first rows alone, how many."""
    axis, kept = sliced(node) or (0, range(0))
    shape = known_shape(node.inputs[0]) or ()
    return kept.start if len(shape) == AXES and axis == ROWS and kept == range(kept.start, shape[ROWS]) else None


def _lay_out(graph: ir.Graph, found: _Cache) -> None:
    batch, heads, rows, inner = found.shape
    result = found.join.outputs[0]
    name, channels, made = result.name or "", heads * inner, list[ir.Node]()

    def add(node: ir.Node) -> ir.Value:
        made.append(node)
        return node.outputs[0]

    by_rows = add(typed_node(graph, "Transpose", [found.past], (batch, rows, heads, inner), result.type, f"{name}.past.rows", perm=BY_HEADS))
    past = add(reshape_node(graph, by_rows, (batch, rows, channels), f"{name}.past"))
    new = _sequence(found.new)
    if new is None:
        turned = add(typed_node(graph, "Transpose", [found.new], (batch, found.first, heads, inner), result.type, f"{name}.new.rows", perm=BY_HEADS))
        new = add(reshape_node(graph, turned, (batch, found.first, channels), f"{name}.new"))
    ends = (("first", found.first), ("stop", rows), ("axis", 1))
    bounds = [add_constant(graph, f"{name}.{word}", np.array([number], np.int64)) for word, number in ends]
    kept = add(typed_node(graph, "Slice", [past, *bounds], (batch, rows - found.first, channels), result.type, f"{name}.kept"))
    sequence = add(typed_node(graph, "Concat", [kept, new], (batch, rows, channels), result.type, f"{name}.sequence", axis=1))
    for number, (user, place) in enumerate([*result.uses()]):
        made += _by_heads(graph, sequence, found.shape, f"{name}.{number}")
        user.replace_input_with(place, made[-1].outputs[0])
    alone = len(found.kept.outputs[0].uses()) == 1 and not found.kept.outputs[0].is_graph_output()
    substitute(graph, [found.join, *([found.kept] if alone else [])], [*made, *_by_heads(graph, sequence, found.shape, name)])


def _sequence(new: ir.Value) -> ir.Value | None:
    """The sequence that a Reshape and a Transpose split into heads; None for heads that are made otherwise."""
    turned = new.producer()
    split = turned.inputs[0].producer() if turned is not None and turned.inputs[0] is not None and is_operator(turned, "Transpose") else None
    if turned is None or split is None or not is_operator(split, "Reshape") or ints(turned, "perm", ()) != BY_HEADS:
        return None
    before, after = known_shape(split.inputs[0]) or (), known_shape(split.outputs[0]) or ()
    return split.inputs[0] if len(after) == AXES and before == (*after[:2], after[2] * after[3]) else None


def _by_heads(graph: ir.Graph, sequence: ir.Value, shape: tuple[int, ...], name: str) -> list[ir.Node]:
    """Nodes, not yet in the graph, that make the cache by heads of a sequence, for one reader."""
    batch, heads, rows, inner = shape
    apart = reshape_node(graph, sequence, (batch, rows, heads, inner), f"{name}.apart")
    return [apart, typed_node(graph, "Transpose", apart.outputs, shape, sequence.type, f"{name}.heads", perm=BY_HEADS)]


def lay_out_rows(graph: ir.Graph, device: Device | None) -> None:
    """For a machine that places rows; without one they stay as they are. Flags are made once for all layers."""
    if device is None or not device.may_compute(TAKES_PLACE):
        return
    flags = dict[ir.Value, ir.Value]()
    for node in [node for node in graph if is_operator(node, "Where")]:
        condition = node.inputs[0]
        if condition is not None and _places(node, condition):
            if condition not in flags:
                flags[condition] = _flags(graph, node, condition)
            _choose_by_flags(graph, node, flags[condition])


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


def _choose_by_flags(graph: ir.Graph, node: ir.Node, flags: ir.Value) -> None:
    batch, _, rows = known_shape(flags) or (1, 1, 1)
    name, kind = node.outputs[0].name or "", ir.TensorType(ir.DataType.BOOL)
    axes = [add_constant(graph, f"{name}.{word}", np.array([axis], np.int64)) for word, axis in (("middle", 1), ("last", 2))]
    nothing = add_constant(graph, f"{name}.nothing", np.array(0, np.float32))
    line = typed_node(graph, "Squeeze", [flags, axes[0]], (batch, rows), flags.type, f"{name}.line")
    column = typed_node(graph, "Unsqueeze", [line.outputs[0], axes[1]], (batch, rows, 1), flags.type, f"{name}.column")
    new = typed_node(graph, "Greater", [column.outputs[0], nothing], (batch, rows, 1), kind, f"{name}.new")
    graph.insert_before(node, [line, column, new])
    node.replace_input_with(0, new.outputs[0])
