"""Masks of attention: which sums add one to scores, and the mask as rows of its own, once for all attentions that share it."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, constant, is_operator, known_shape, single_use, typed_node
from toolchain.spec.arrays import Array

DROPS = -1e4
"""A score with this or less beside it has no share that float32 could hold."""
LEAST = -65504.0
"""The least of float16."""
ROWS = (2, 3)
"""Axes of a mask that is laid out: [batch, keys], or [batch, queries, keys]."""


@dataclass(frozen=True)
class Mask:
    """source: whether a key counts, bool [batch, 1, queries, keys] and of the row's axes once that is laid out, or the constant that is added.
    extents: batch, queries and keys; batch is 0 where any will do, and queries 1 where one row is for all. plain, drops: 0 and one far below. row: 0
    or far below, of as many axes as in ROWS, where a pass has laid it out so. node: that adds the mask, its operand `added`, to scores. taken: the
    nodes between the row and the scores.
    """

    node: ir.Node
    added: ir.Value
    source: ir.Value
    extents: tuple[int, int, int]
    plain: float
    drops: float
    row: ir.Value | None
    taken: tuple[ir.Node, ...]

    @property
    def queries(self) -> int:
        return self.extents[1]

    @property
    def known(self) -> bool:
        """Whether it is a constant."""
        return self.extents[0] == 0


def find_mask(value: ir.Value | None) -> tuple[Mask, ir.Value] | None:
    """The mask that is added to scores, and the scores; None where no sum with such a mask makes the tensor."""
    node = value.producer() if value is not None and single_use(value) else None
    if node is None or not is_operator(node, "Add"):
        return None
    for scores, given in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        found = _mask(node, given)
        if found is not None and scores is not None and (known_shape(scores) or ())[-1:] == found.extents[-1:]:
            return found, scores
    return None


def _mask(node: ir.Node, value: ir.Value | None) -> Mask | None:
    """value: an operand of the sum `node`."""
    if value is None:
        return None
    if (array := constant(value)) is not None:
        return _constant_mask(node, value, array)
    maker = value.producer()
    spread = maker if maker is not None and is_operator(maker, "Unsqueeze") and len(known_shape(maker.inputs[0]) or ()) in ROWS else None
    row = spread.inputs[0] if spread is not None else None
    chosen = row.producer() if row is not None else maker
    if chosen is None or not is_operator(chosen, "Where"):
        return None
    counts, numbers = chosen.inputs[0] if row is not None else _counts(chosen.inputs[0]), [constant(each) for each in chosen.inputs[1:]]
    if counts is None or any(array is None or array.size != 1 for array in numbers):
        return None
    plain, drops = (float(np.ravel(array)[0]) for array in numbers if array is not None)
    if plain != 0 or drops > DROPS:
        return None
    batch, *between, keys = known_shape(counts) or (0, 0)
    taken = (node,) if spread is None else (node, spread)
    return Mask(node, value, counts, (batch, (between or [1])[-1], keys), plain, drops, row, taken)


def _constant_mask(node: ir.Node, value: ir.Value, array: Array) -> Mask | None:
    """The mask that a constant is: 0 or far below everywhere, and the same for all heads."""
    *others, queries, keys = (1, 1, *array.shape)
    if any(size != 1 for size in others) or not ((array == 0) | (array <= DROPS)).all():
        return None
    return Mask(node, value, value, (0, queries, keys), 0.0, float(array.min(initial=DROPS)), None, (node,))


def _counts(value: ir.Value | None) -> ir.Value | None:
    """A condition of shape [batch, 1, queries, keys]; one row where it is spread over queries by a constant that is true everywhere."""
    node = value.producer() if value is not None else None
    if node is not None and is_operator(node, "And"):
        for given, other in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            array = constant(other)
            if array is not None and array.all():
                return _counts(given)
    shape = known_shape(value) or ()
    return value if len(shape) == 4 and shape[1] == 1 and value is not None and not value.is_initializer() else None


def lay_out_mask(graph: ir.Graph, found: Mask, axes: int, batch: int) -> None:
    """Makes the mask as rows [batch, keys] or [batch, queries, keys], once for all attentions that share it, and adds those to the scores. axes: of
    the rows."""
    queries, keys = found.extents[1:]
    shape = (batch, *[queries] * (axes - 2), keys)
    row = _constant_rows(graph, found, shape) if found.known else _computed_rows(graph, found, shape)
    scores, floats = f"{found.node.outputs[0].name}.mask", found.node.outputs[0].type
    spread = typed_node(graph, "Unsqueeze", [row, _left_out(graph, scores, axes)], (batch, 1, queries, keys), floats, scores)
    graph.insert_before(found.node, spread)
    found.node.replace_input_with(found.node.inputs.index(found.added), spread.outputs[0])


def _computed_rows(graph: ir.Graph, found: Mask, shape: tuple[int, ...]) -> ir.Value:
    name, source = f"{found.source.name}.mask", found.source
    row = next((node.outputs[0] for node in graph if node.outputs[0].name == name), None)
    if row is not None:
        return row
    flat = typed_node(graph, "Squeeze", [source, _left_out(graph, name, len(shape))], shape, source.type, f"{name}.counts")
    chosen = _chosen(graph, found, flat.outputs[0], name)
    maker = source.producer()
    if maker is None:
        graph.insert_before(graph[0], [flat, chosen])
    else:
        graph.insert_after(maker, [flat, chosen])
    return chosen.outputs[0]


def _constant_rows(graph: ir.Graph, found: Mask, shape: tuple[int, ...]) -> ir.Value:
    """The host makes them, as an operand of the machine's is computed."""
    array = constant(found.source)
    counts = np.broadcast_to(np.asarray(array == 0).reshape(shape[1:]), shape).copy()
    for node in graph:
        if is_operator(node, "Where") and (other := constant(node.inputs[0])) is not None and np.array_equal(other, counts):
            return node.outputs[0]
    name = f"{found.source.name}.rows"
    chosen = _chosen(graph, found, add_constant(graph, f"{name}.counts", counts), name)
    graph.insert_before(graph[0], chosen)
    return chosen.outputs[0]


def _chosen(graph: ir.Graph, found: Mask, counts: ir.Value, name: str) -> ir.Node:
    """The mask by a condition of its rows."""
    shape, floats = known_shape(counts) or (), found.node.outputs[0].type
    numbers = [add_constant(graph, f"{name}.{end}", np.array(number, np.float32)) for end, number in (("plain", found.plain), ("drops", found.drops))]
    return typed_node(graph, "Where", [counts, *numbers], shape, floats, name)


def _left_out(graph: ir.Graph, name: str, axes: int) -> ir.Value:
    """The axes of scores that a mask of so many axes has not."""
    return add_constant(graph, f"{name}.axes", np.array([1, 2][: 4 - axes], np.int64))
