"""Masks of attention: which sums add one to scores, and the mask as rows of its own, once for all attentions that share it."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, constant, is_operator, known_shape, single_use, typed_node

DROPS = -1e4
"""A score with this or less beside it has no share that float32 could hold."""
ROWS = (2, 3)
"""Axes of a mask that is laid out: [batch, keys], or [batch, 1, keys]."""


@dataclass(frozen=True)
class Mask:
    """counts: whether a key does, bool [batch, 1, 1, keys]. plain, drops: the constants 0 and one far below. row: 0 or far below, of as many axes
    as in ROWS, where a pass has laid it out so. node: that adds the mask to scores. taken: the nodes between the row and the scores.
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
    spread = maker if maker is not None and is_operator(maker, "Unsqueeze") and len(known_shape(maker.inputs[0]) or ()) in ROWS else None
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


def lay_out_mask(graph: ir.Graph, found: Mask, axes: int) -> None:
    """Makes the mask as a row [batch, keys] or [batch, 1, keys], once for all attentions that share it, and adds that to the scores. axes: of it."""
    batch, _, _, keys = known_shape(found.counts) or (0, 0, 0, 0)
    shape = (batch, *[1] * (axes - 2), keys)
    name, floats = f"{found.counts.name}.mask", found.node.outputs[0].type
    row = next((node.outputs[0] for node in graph if node.outputs[0].name == name), None)
    if row is None:
        flat = typed_node(graph, "Squeeze", [found.counts, _left_out(graph, name, axes)], shape, found.counts.type, f"{name}.counts")
        chosen = typed_node(graph, "Where", [flat.outputs[0], found.plain, found.drops], shape, floats, name)
        maker, row = found.counts.producer(), chosen.outputs[0]
        if maker is None:
            graph.insert_before(graph[0], [flat, chosen])
        else:
            graph.insert_after(maker, [flat, chosen])
    scores = f"{found.node.outputs[0].name}.mask"
    spread = typed_node(graph, "Unsqueeze", [row, _left_out(graph, scores, axes)], (batch, 1, 1, keys), floats, scores)
    graph.insert_before(found.node, spread)
    number = next(place for place, value in enumerate(found.node.inputs) if _mask(found.node, value) is not None)
    found.node.replace_input_with(number, spread.outputs[0])


def _left_out(graph: ir.Graph, name: str, axes: int) -> ir.Value:
    """The axes of scores that a mask of so many axes has not."""
    return add_constant(graph, f"{name}.axes", np.array([1, 2][: 4 - axes], np.int64))
