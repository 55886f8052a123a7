"""Recognise attention by heads, and say it on sequences: shares of keys, and values by shares, which fusing makes a call each. No head is moved.

Exporters spell it as products of [batch, heads, rows, channels of a head], with a Reshape and a Transpose before and behind each. On sequences
[batch, rows, channels] heads are channels side by side, which is how the layers around leave them.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import fused_call
from toolchain.graph.rewrite import add_constant, constant, integer, ints, is_operator, known_shape, reshape_node, single_use, substitute, typed_node
from toolchain.operations.library import Kinds
from toolchain.passes.context import Context, Device, Pass

DROPS = -1e4
"""A score with this or less beside it has no share that float32 could hold."""
ROW = 2
"""Axes of a mask that is laid out: [batch, keys]."""

PROBABILITIES, MASKED, VALUES = "attention_probabilities", "masked_attention_probabilities", "attention_values"
BY_HEADS, KEYS_LAST = (0, 2, 1, 3), (0, 2, 3, 1)
SEQUENCE = 3
"""Axes of [batch, rows, channels]."""
CLOSE = 1e-5
"""Relative difference of a factor from 1 / sqrt(channels of a head) that exporters' roundings make."""


@dataclass(frozen=True)
class Mask:
    """counts: whether a key does, bool [batch, 1, 1, keys]. plain, drops: the constants 0 and one far below. row: 0 or far below, [batch, keys],
    where a pass has laid it out so. node: that adds the mask to scores. taken: the nodes between the row and the scores.
    """

    node: ir.Node
    counts: ir.Value
    plain: ir.Value
    drops: ir.Value
    row: ir.Value | None
    taken: tuple[ir.Node, ...]


def find_mask(value: ir.Value | None) -> tuple[Mask, ir.Value] | None:
    """The mask that is added to scores, and the scores; None where no sum with such a mask makes the tensor."""
    node = value.producer() if value is not None and single_use(value) else None
    if node is None or not is_operator(node, "Add"):
        return None
    for scores, given in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        found = _mask(node, given)
        if found is not None and scores is not None and (known_shape(scores) or ())[-1:] == (known_shape(found.counts) or ())[-1:]:
            return found, scores
    return None


def _mask(node: ir.Node, value: ir.Value | None) -> Mask | None:
    """value: an operand of the sum `node`."""
    maker = value.producer() if value is not None else None
    spread = maker if maker is not None and is_operator(maker, "Unsqueeze") and len(known_shape(maker.inputs[0]) or ()) == ROW else None
    row = spread.inputs[0] if spread is not None else None
    chosen = row.producer() if row is not None else maker
    if chosen is None or not is_operator(chosen, "Where"):
        return None
    counts, plain, drops = chosen.inputs[0] if row is not None else _counts(chosen.inputs[0]), chosen.inputs[1], chosen.inputs[2]
    numbers = [constant(each) for each in (plain, drops)]
    if counts is None or plain is None or drops is None or any(array is None or array.size != 1 for array in numbers):
        return None
    first, second = (float(np.ravel(array)[0]) for array in numbers if array is not None)
    if first != 0 or second > DROPS:
        return None
    return Mask(node, counts, plain, drops, row, (node,) if spread is None else (node, spread))


def _counts(value: ir.Value | None) -> ir.Value | None:
    """A condition of shape [batch, 1, 1, keys], also where it is spread over queries by a constant that is true everywhere."""
    node = value.producer() if value is not None else None
    if node is not None and is_operator(node, "And"):
        for given, other in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            array = constant(other)
            if array is not None and array.all():
                return _counts(given)
    shape = known_shape(value) or ()
    return value if len(shape) == 4 and shape[1:3] == (1, 1) and value is not None and not value.is_initializer() else None


def lay_out_mask(graph: ir.Graph, found: Mask) -> None:
    """Makes the mask as a row [batch, keys], once for all attentions that share it, and adds that to the scores."""
    batch, _, _, keys = known_shape(found.counts) or (0, 0, 0, 0)
    name, floats = f"{found.counts.name}.mask", found.node.outputs[0].type
    row = next((node.outputs[0] for node in graph if node.outputs[0].name == name), None)
    if row is None:
        flat = typed_node(graph, "Squeeze", [found.counts, _middle(graph, name)], (batch, keys), found.counts.type, f"{name}.counts")
        chosen = typed_node(graph, "Where", [flat.outputs[0], found.plain, found.drops], (batch, keys), floats, name)
        maker, row = found.counts.producer(), chosen.outputs[0]
        if maker is None:
            graph.insert_before(graph[0], [flat, chosen])
        else:
            graph.insert_after(maker, [flat, chosen])
    scores = f"{found.node.outputs[0].name}.mask"
    spread = typed_node(graph, "Unsqueeze", [row, _middle(graph, scores)], (batch, 1, 1, keys), floats, scores)
    graph.insert_before(found.node, spread)
    number = next(place for place, value in enumerate(found.node.inputs) if _mask(found.node, value) is not None)
    found.node.replace_input_with(number, spread.outputs[0])


def _middle(graph: ir.Graph, name: str) -> ir.Value:
    """The two axes between batch and keys."""
    return add_constant(graph, f"{name}.axes", np.array([1, 2], np.int64))


@dataclass(frozen=True)
class Attention:
    """queries, keys, values: sequences [batch, rows, channels]. of_shares, of_values: the nodes of each half, readers first. shares: the result of
    the first half, a sequence where a pass has laid it out as one.
    """

    queries: ir.Value
    keys: ir.Value
    values: ir.Value
    heads: int
    of_shares: tuple[ir.Node, ...]
    of_values: tuple[ir.Node, ...]
    mask: Mask | None = None

    @property
    def shares(self) -> ir.Value:
        return self.of_shares[0].outputs[0]

    @property
    def laid_out(self) -> bool:
        """Whether the shares stand as a sequence [batch, rows, heads * keys]."""
        return len(known_shape(self.shares) or ()) == 3

    @property
    def taken(self) -> tuple[ir.Node, ...]:
        return (*self.of_values, *self.of_shares)


@dataclass(frozen=True)
class _Operand:
    """A tensor that was split into heads. factor: of all its elements."""

    source: ir.Value
    heads: int
    factor: float
    taken: tuple[ir.Node, ...]


def find_attention(softmax: ir.Node) -> Attention | None:
    """The attention that a Softmax is part of; None for any other Softmax."""
    if not is_operator(softmax, "Softmax") or integer(softmax, "axis", -1) not in (-1, 3):
        return None
    masked = find_mask(softmax.inputs[0])
    scores = _scaled(masked[1] if masked else softmax.inputs[0])
    product = _made_by(scores.value, "MatMul")
    there = _chain(softmax.outputs[0], "Transpose", "Reshape")
    back = _chain(there[0].outputs[0], "Reshape", "Transpose") if there else ()
    shares = (back[0] if back else softmax).outputs[0]
    context = _only_reader(shares, "MatMul")
    moved = context and _only_reader(context.outputs[0], "Transpose")
    joined = moved and _only_reader(moved.outputs[0], "Reshape")
    if (
        not (product and context and moved and joined)
        or context.inputs[0] is not shares
        or bool(there) != bool(back)
        or ints(moved, "perm", ()) != BY_HEADS
    ):
        return None
    queries, keys, values = _split(product.inputs[0], BY_HEADS), _split(product.inputs[1], KEYS_LAST), _split(context.inputs[1], BY_HEADS)
    if not (queries and keys and values) or not queries.heads == keys.heads == values.heads or values.factor != 1:
        return None
    mask, factor = masked[0] if masked else None, queries.factor * keys.factor * scores.factor
    rows, others, given, made = (known_shape(value) or () for value in (queries.source, keys.source, values.source, joined.outputs[0]))
    batches = {shape[:1] for shape in (rows, others, *([known_shape(mask.counts) or ()] if mask else []))}
    if len(rows) != SEQUENCE or rows != made or others != given or len(batches) > 1:
        return None
    if abs(factor * math.sqrt(rows[-1] // queries.heads) - 1) > CLOSE:
        return None
    of_shares = (*there, softmax, *(mask.taken if mask else ()), *scores.taken, product, *keys.taken, *queries.taken)
    return Attention(queries.source, keys.source, values.source, queries.heads, of_shares, (joined, moved, context, *values.taken, *back), mask)


def replace_attention(model: ir.Model, found: Attention, kinds: Kinds) -> tuple[ir.Node, ir.Node]:
    """The two calls in the place of the nodes of an attention that is laid out."""
    softmax = next(node for node in found.of_shares if is_operator(node, "Softmax"))
    attributes, row = {"heads": found.heads}, found.mask.row if found.mask else None
    kind, operands = kinds[PROBABILITIES if row is None else MASKED], [found.queries, found.keys, *([] if row is None else [row])]
    shares = fused_call(model, kind, "", operands, attributes, softmax.name or found.shares.name or "")
    product = found.of_values[2]
    substitute(model.graph, found.of_shares, [shares])
    values = fused_call(model, kinds[VALUES], "", [shares.outputs[0], found.values], attributes, product.name or product.outputs[0].name or "")
    substitute(model.graph, found.of_values, [values])
    return shares, values


@dataclass(frozen=True)
class LayOutAttention(Pass):
    """The shares of every attention stand once as a sequence [batch, rows, heads * keys], for machines that compute them so."""

    name: ClassVar[str] = "lay_out_attention"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        for node in list(model.graph):
            found = find_attention(node)
            if found is not None and not found.laid_out and (context.device is None or takes(context.device, found)):
                _lay_out(model.graph, found)
                if found.mask is not None:
                    lay_out_mask(model.graph, found.mask)
        return model


def takes(device: Device, found: Attention) -> bool:
    """Whether a machine computes both halves."""
    return device.computes is None or device.computes >= {MASKED if found.mask else PROBABILITIES, VALUES}


def _lay_out(graph: ir.Graph, found: Attention) -> None:
    """Puts a Transpose and a Reshape behind the softmax, and the same back."""
    shares, product = found.shares, found.of_values[2]
    batch, heads, rows, keys = known_shape(shares) or (0, 0, 0, 0)
    name = shares.name or ""
    turned = typed_node(graph, "Transpose", [shares], (batch, rows, heads, keys), shares.type, f"{name}.turned", perm=BY_HEADS)
    joined = reshape_node(graph, turned.outputs[0], (batch, rows, heads * keys), f"{name}.rows")
    apart = reshape_node(graph, joined.outputs[0], (batch, rows, heads, keys), f"{name}.apart")
    back = typed_node(graph, "Transpose", apart.outputs, (batch, heads, rows, keys), shares.type, f"{name}.back", perm=BY_HEADS)
    graph.insert_before(product, [turned, joined, apart, back])
    product.replace_input_with(0, back.outputs[0])


@dataclass(frozen=True)
class _Scaled:
    """value: before it was multiplied by a number."""

    value: ir.Value | None
    factor: float
    taken: tuple[ir.Node, ...]


def _scaled(value: ir.Value | None) -> _Scaled:
    """A tensor that nothing else reads, without a product or quotient by a number that made it."""
    node = value.producer() if value is not None else None
    if value is not None and node is not None and is_operator(node, "Mul", "Div") and single_use(value):
        for source, number in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            array = constant(number)
            if array is not None and array.size == 1 and (is_operator(node, "Mul") or number is node.inputs[1]) and array.ravel()[0]:
                factor = float(array.ravel()[0])
                return _Scaled(source, factor if is_operator(node, "Mul") else 1 / factor, (node,))
    return _Scaled(value, 1.0, ())


def _chain(value: ir.Value, *kinds: str) -> tuple[ir.Node, ...]:
    """Operators of these kinds that read a tensor one after the other, alone; the last one first, none where they do not."""
    found: list[ir.Node] = []
    for kind in kinds:
        node = _only_reader(found[-1].outputs[0] if found else value, kind)
        if node is None:
            return ()
        found.append(node)
    return tuple(reversed(found))


def _made_by(value: ir.Value | None, kind: str) -> ir.Node | None:
    """The operator of this kind that makes a tensor which nothing else reads."""
    node = value.producer() if value is not None and single_use(value) else None
    return node if node is not None and is_operator(node, kind) else None


def _only_reader(value: ir.Value, kind: str) -> ir.Node | None:
    readers = [node for node, _ in value.uses()]
    return readers[0] if len(readers) == 1 and not value.is_graph_output() and is_operator(readers[0], kind) else None


def _split(value: ir.Value | None, wanted: tuple[int, ...]) -> _Operand | None:
    """An operand [batch, heads, ...] of a product that a Reshape and Transposes, and perhaps numbers, made of a sequence."""
    taken, factor, order = list[ir.Node](), 1.0, (0, 1, 2, 3)
    while True:
        scaled = _scaled(value)
        value, factor = scaled.value, factor * scaled.factor
        taken += scaled.taken
        moved = _made_by(value, "Transpose")
        if moved is None and not scaled.taken:
            break
        if moved is not None:
            perm = ints(moved, "perm", ())
            if len(perm) != len(order):
                return None
            order = tuple(perm[axis] for axis in order)
            taken.append(moved)
            value = moved.inputs[0]
    reshape = _made_by(value, "Reshape")
    source = reshape.inputs[0] if reshape is not None else None
    after, before = known_shape(reshape.outputs[0]) if reshape is not None else None, known_shape(source)
    if reshape is None or source is None or after is None or before is None or order != wanted or len(after) != 4 or len(before) != 3:
        return None
    if (after[0], after[1], after[2] * after[3]) != before:
        return None
    return _Operand(source, after[2], factor, (*taken, reshape))
