"""The pass that lays out attention for a machine: shares of keys once as a sequence, rotary positions and caches too, heads in whole blocks.

Caches by heads are rows that move up in [batch, heads, rows, channels of a head], with new ones behind them, as exporters write them. On sequences
[batch, rows, channels] heads are channels side by side, so that the rows become one operation, and attention reads them there. A cache itself stays
by heads; between steps the sequence goes round in its place (`toolchain.graph.states`).

A new row that takes the place of one in a cache on sequences, as a condition says, is written with flags along the last axis, as an operation of
machines reads them."""

from dataclasses import dataclass
from typing import ClassVar

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
from toolchain.passes.align_joins import WIDEST
from toolchain.passes.attention import Attention, family_for, find_attention, widen_heads
from toolchain.passes.attention_parts import lay_out_mask
from toolchain.passes.context import Context, Device, Pass
from toolchain.passes.lay_out_rotary import lay_out_rotary


@dataclass(frozen=True)
class LayOutAttention(Pass):
    """The shares of every attention stand once as a sequence [batch, rows, heads * (keys + spare)], and rotary positions and caches on sequences, for
    machines that compute them so."""

    name: ClassVar[str] = "lay_out_attention"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        lay_out_rotary(model.graph, context.device)
        lay_out_caches(model.graph, context.device)
        lay_out_rows(model.graph, context.device)
        for node in list(model.graph):
            found = find_attention(node)
            if found is not None and _widened(model.graph, found, context.device):
                found = find_attention(node)
            family = None if found is None or found.laid_out else family_for(context.device, found)
            if found is not None and family is not None:
                _lay_out(model.graph, found, spare_for(context.device, found) if family.spaced else 0)
                if found.mask is not None:
                    lay_out_mask(model.graph, found.mask, family.mask, (known_shape(found.queries) or (1,))[0])
        return model


def _widened(graph: ir.Graph, found: Attention, device: Device | None) -> bool:
    """Whether the heads had to become whole blocks of a machine that computes both halves of the attention."""
    able = device is not None and device.computes is not None and family_for(device, found) is not None
    return able and widen_heads(graph, found, _block_of(device))


def _block_of(device: Device | None) -> int:
    """Channels of a block at which a tensor can begin inside another; 1 where no block matters."""
    return device.block if device is not None and device.block <= WIDEST else 1


def spare_for(device: Device | None, found: Attention) -> int:
    """How many zeros behind its shares fill up the last block of a head."""
    return -found.keys_of_head % _block_of(device)


def _lay_out(graph: ir.Graph, found: Attention, spare: int) -> None:
    """Puts a Transpose and a Reshape behind the softmax, and the same back; a Pad before the first and a Slice behind the last where there is
    something to spare."""
    shares, product = found.shares, found.of_values[2]
    batch, heads, rows, keys = known_shape(shares) or (0, 0, 0, 0)
    name = shares.name or ""
    room, made = keys + spare, [_padded(graph, shares, spare)] if spare else []
    source = made[-1].outputs[0] if made else shares
    turned = typed_node(graph, "Transpose", [source], (batch, rows, heads, room), shares.type, f"{name}.turned", perm=BY_HEADS)
    joined = reshape_node(graph, turned.outputs[0], (batch, rows, heads * room), f"{name}.rows")
    apart = reshape_node(graph, joined.outputs[0], (batch, rows, heads, room), f"{name}.apart")
    back = typed_node(graph, "Transpose", apart.outputs, (batch, heads, rows, room), shares.type, f"{name}.back", perm=BY_HEADS)
    made += [turned, joined, apart, back]
    if spare:
        made.append(_cut(graph, back.outputs[0], (batch, heads, rows, keys), f"{name}.cut"))
    graph.insert_before(product, made)
    product.replace_input_with(0, made[-1].outputs[0])


def _padded(graph: ir.Graph, value: ir.Value, spare: int) -> ir.Node:
    """A Pad, not yet in the graph, of zeros behind the last of four axes."""
    name, shape = f"{value.name}.spaced", known_shape(value) or (0,)
    pads = add_constant(graph, f"{name}.pads", np.array([0] * 7 + [spare], np.int64))
    return typed_node(graph, "Pad", [value, pads], (*shape[:-1], shape[-1] + spare), value.type, name)


def _cut(graph: ir.Graph, value: ir.Value, shape: tuple[int, ...], name: str) -> ir.Node:
    """A Slice, not yet in the graph, of the first elements along the last of four axes. shape: of its result."""
    bounds = [add_constant(graph, f"{name}.{end}", np.array([number], np.int64)) for end, number in (("first", 0), ("stop", shape[-1]), ("axis", 3))]
    return typed_node(graph, "Slice", [value, *bounds], shape, value.type, name)


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
            _join_rows(graph, found)


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


def _join_rows(graph: ir.Graph, found: _Cache) -> None:
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
