"""Rotary positions on sequences [batch, rows, channels], where heads stand side by side, which fusing makes one call.

Exporters turn channels between the Transpose that moves heads before rows and the product of queries and keys. Turned before it, on what the layer
before leaves, they let the pass for attention find the heads as it does without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import fused_call
from toolchain.graph.rewrite import BY_HEADS, add_constant, bypass, ints, is_operator, known_shape, reshape_node, substitute, typed_node
from toolchain.operations.library import Kinds
from toolchain.passes.context import Device
from toolchain.passes.rotary import AXES, STEP, Rotary, Tables, find_rotary, table_shape

OPERATION = "rotary"


@dataclass(frozen=True)
class _Heads:
    """sequence: [batch, rows, channels], of which x is a form. by_heads: whether heads stand before rows. split: the Reshape of the sequence."""

    sequence: ir.Value
    batch: int
    rows: int
    heads: int
    inner: int
    by_heads: bool
    split: ir.Node

    @property
    def apart(self) -> tuple[int, int, int, int]:
        return (self.batch, self.rows, self.heads, self.inner)


def _heads(x: ir.Value) -> _Heads | None:
    """The sequence that a Reshape, and perhaps a Transpose, split into heads."""
    node = x.producer()
    by_heads = node is not None and is_operator(node, "Transpose")
    if node is not None and by_heads:
        if ints(node, "perm", ()) != BY_HEADS or node.inputs[0] is None:
            return None
        node = node.inputs[0].producer()
    if node is None or not is_operator(node, "Reshape") or (source := node.inputs[0]) is None:
        return None
    before, after = known_shape(source) or (), known_shape(node.outputs[0]) or ()
    if len(after) != AXES or before != (*after[:2], after[2] * after[3]):
        return None
    return _Heads(source, *after, by_heads, node)


@dataclass(frozen=True)
class OnSequence:
    """Rotary positions on a sequence: one operation. cos, sin: [tables, rows, pairs]. taken: the nodes, each before those that it reads."""

    sequence: ir.Value
    cos: ir.Value
    sin: ir.Value
    heads: int
    interleaved: bool
    taken: tuple[ir.Node, ...]


def takes_rotary(device: Device | None) -> bool:
    """Whether there is a machine that may compute rotary positions."""
    return device is not None and device.may_compute(OPERATION)


def lay_out_rotary(graph: ir.Graph, device: Device | None) -> None:
    """Rotary positions stand on sequences, for a machine that computes them so. Without one they stay: the tensors between heads and scores, which go
    where they are laid out, are among those that calibration sees for all machines."""
    if not takes_rotary(device):
        return
    tables = Tables(graph)
    for node in reversed(list(graph)):
        found = find_rotary(node) if node.graph is not None else None
        if found is not None and on_sequence(found) is None:
            _lay_out(graph, found, tables)
        elif found is not None:
            _share(found, tables)


def _share(found: Rotary, tables: Tables) -> None:
    """Lets rotary positions that are laid out read the first of tables that are the same."""
    for spread in (found.cos.producer(), found.sin.producer()):
        if spread is not None and (table := spread.inputs[0]) is not None and tables.first.get(table, table) is not table:
            spread.replace_input_with(0, tables.first[table])


def on_sequence(found: Rotary) -> OnSequence | None:
    """The operation that rotary positions are once they are laid out; None before."""
    heads, readers = _heads(found.x), [user for user, _ in found.result.uses()]
    if heads is None or heads.by_heads or found.doubled or len(readers) != 1 or found.result.is_graph_output():
        return None
    spread = [table.producer() for table in (found.cos, found.sin)]
    tables = [node.inputs[0] if node is not None and is_operator(node, "Unsqueeze") else None for node in spread]
    sizes = {known_shape(table) for table in tables}
    if not is_operator(readers[0], "Reshape") or known_shape(readers[0].outputs[0]) != known_shape(heads.sequence) or len(sizes) != 1:
        return None
    cos, sin = tables
    if cos is None or sin is None or cos.is_initializer() or sin.is_initializer():
        return None
    if (known_shape(cos) or ())[1:] != (heads.rows, found.half) or (known_shape(found.cos) or ())[1:3] != (heads.rows, 1):
        return None
    own = tuple(dict.fromkeys(node for node in (heads.split, *spread) if node is not None and _read_by(node, found.taken)))
    return OnSequence(heads.sequence, cos, sin, heads.heads, found.interleaved, (readers[0], *found.taken, *own))


def _read_by(node: ir.Node, taken: Sequence[ir.Node]) -> bool:
    """Whether these nodes alone read what a node makes."""
    return all(user in taken for user, _ in node.outputs[0].uses()) and not node.outputs[0].is_graph_output()


def replace_rotary(model: ir.Model, found: OnSequence, kinds: Kinds) -> ir.Node:
    """One call in the place of the nodes."""
    last = found.taken[0]
    attributes = {"heads": found.heads, "interleaved": int(found.interleaved)}
    name = found.taken[1].outputs[0].name or last.name or ""
    call = fused_call(model, kinds[OPERATION], "", [found.sequence, found.cos, found.sin], attributes, name)
    substitute(model.graph, found.taken, [call])
    return call


def _lay_out(graph: ir.Graph, found: Rotary, tables: Tables) -> None:
    heads = _heads(found.x)
    if heads is None:
        return
    shape, other = (table_shape(table, heads.batch, heads.rows, found.half, heads.by_heads) for table in (found.cos, found.sin))
    if shape is None or shape != other:
        return
    cos, sin = (tables.of(table, shape, found.interleaved) for table in (found.cos, found.sin))
    made = _turned(graph, heads, replace(found, cos=cos, sin=sin))
    sequence, last = made[-2].outputs[0], made[-1].outputs[0]
    if heads.by_heads:
        shape, name = (heads.batch, heads.heads, heads.rows, heads.inner), f"{found.result.name}.back"
        made.append(typed_node(graph, "Transpose", [last], shape, found.x.type, name, perm=BY_HEADS))
    substitute(graph, found.taken, made)
    _hand_on(graph, made[-1].outputs[0], sequence, heads.by_heads)


def _hand_on(graph: ir.Graph, turned: ir.Value, sequence: ir.Value, by_heads: bool) -> None:
    """Lets those read the sequence that make it of the heads again, as a cache of keys does."""
    for user in [user for user, _ in turned.uses()]:
        if by_heads and is_operator(user, "Transpose") and ints(user, "perm", ()) == BY_HEADS:
            _hand_on(graph, user.outputs[0], sequence, False)
        elif not by_heads and is_operator(user, "Reshape") and known_shape(user.outputs[0]) == known_shape(sequence):
            bypass(graph, user, sequence)


def _spread(graph: ir.Graph, table: ir.Value, name: str, made: list[ir.Node]) -> ir.Value:
    """[tables, rows, 1, pairs], as it multiplies heads."""
    tables, rows, half = known_shape(table) or (1, 1, 1)
    axis = add_constant(graph, f"{name}.axis", np.array([2], np.int64))
    made.append(typed_node(graph, "Unsqueeze", [table, axis], (tables, rows, 1, half), table.type, name))
    return made[-1].outputs[0]


def _turned(graph: ir.Graph, heads: _Heads, found: Rotary) -> list[ir.Node]:
    """Nodes, not yet in the graph, from the sequence to heads that are turned, and back, and to heads again."""
    name, floats, made = found.result.name, found.x.type, list[ir.Node]()

    def add(kind: str, inputs: list[ir.Value], width: int, word: str, more: tuple[int, ...] = (), **attributes: int) -> ir.Value:
        made.append(typed_node(graph, kind, inputs, (*heads.apart[:-1], width, *more), floats, f"{name}.{word}", **attributes))
        return made[-1].outputs[0]

    def cut(value: ir.Value, first: int, stop: int, step: int, word: str) -> ir.Value:
        bounds = (("first", first), ("stop", stop), ("axis", AXES - 1), ("step", step))
        ends = [add_constant(graph, f"{name}.{word}.{end}", np.array([number], np.int64)) for end, number in bounds]
        return add("Slice", [value, *ends], len(range(first, stop, step)), word)

    made.append(reshape_node(graph, heads.sequence, heads.apart, f"{name}.apart"))
    whole, half, turned = made[-1].outputs[0], found.half, 2 * found.half
    front = cut(whole, 0, turned, 1, "front") if turned < heads.inner else whole
    starts = ((0, turned, STEP), (1, turned, STEP)) if found.interleaved else ((0, half, 1), (half, turned, 1))
    a, b = (cut(front, *bounds, word) for bounds, word in zip(starts, ("first", "second"), strict=True))
    cos, sin = (_spread(graph, table, f"{name}.{word}", made) for table, word in ((found.cos, "cos"), (found.sin, "sin")))
    low = add("Sub", [add("Mul", [a, cos], half, "first.kept"), add("Mul", [b, sin], half, "second.taken")], half, "low")
    high = add("Add", [add("Mul", [b, cos], half, "second.kept"), add("Mul", [a, sin], half, "first.added")], half, "high")
    if found.interleaved:
        axis = add_constant(graph, f"{name}.side", np.array([AXES], np.int64))
        sides = [add("Unsqueeze", [part, axis], half, f"{word}.side", (1,)) for part, word in ((low, "low"), (high, "high"))]
        made.append(reshape_node(graph, add("Concat", sides, half, "sides", (2,), axis=AXES), (*heads.apart[:-1], turned), f"{name}.turned"))
        joined = made[-1].outputs[0]
    else:
        joined = add("Concat", [low, high], turned, "turned", axis=AXES - 1)
    if turned < heads.inner:
        joined = add("Concat", [joined, cut(whole, turned, heads.inner, 1, "rest")], heads.inner, "whole", axis=AXES - 1)
    made.append(reshape_node(graph, joined, (heads.batch, heads.rows, heads.heads * heads.inner), f"{name}.sequence"))
    made.append(reshape_node(graph, made[-1].outputs[0], heads.apart, f"{name}.heads"))
    return made
