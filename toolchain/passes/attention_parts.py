"""Parts of an attention: its mask, as rows of its own that attentions share, and its operands, which Reshapes and Transposes made of a
sequence."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, constant, ints, is_operator, known_shape, single_use, typed_node
from toolchain.spec.arrays import Array

DROPS = -1e4
"""A score with this or less beside it has no share that float32 could hold."""
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


AXES = 4
"""The axes of [batch, heads, rows, channels]."""


@dataclass(frozen=True)
class Operand:
    """A tensor that was split into heads, each repeated `share` times. factor: of all its elements."""

    source: ir.Value
    heads: int
    factor: float
    share: int
    taken: tuple[ir.Node, ...]


@dataclass(frozen=True)
class Scaled:
    """value: before it was multiplied by a number."""

    value: ir.Value | None
    factor: float
    taken: tuple[ir.Node, ...]


def scaled(value: ir.Value | None) -> Scaled:
    """A tensor that nothing else reads, without a product or quotient by a number that made it."""
    node = value.producer() if value is not None else None
    if value is not None and node is not None and is_operator(node, "Mul", "Div") and single_use(value):
        for source, number in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            array = constant(number)
            if array is not None and array.size == 1 and (is_operator(node, "Mul") or number is node.inputs[1]) and array.ravel()[0]:
                factor = float(array.ravel()[0])
                return Scaled(source, factor if is_operator(node, "Mul") else 1 / factor, (node,))
    return Scaled(value, 1.0, ())


def chain(value: ir.Value, *kinds: str) -> tuple[ir.Node, ...]:
    """Operators of these kinds that read a tensor one after the other, alone; the last one first, none where they do not."""
    found: list[ir.Node] = []
    for kind in kinds:
        node = only_reader(found[-1].outputs[0] if found else value, kind)
        if node is None:
            return ()
        found.append(node)
    return tuple(reversed(found))


def made_by(value: ir.Value | None, *kinds: str) -> ir.Node | None:
    """The operator of one of these kinds that makes a tensor which nothing else reads."""
    node = value.producer() if value is not None and single_use(value) else None
    return node if node is not None and is_operator(node, *kinds) else None


def only_reader(value: ir.Value, kind: str) -> ir.Node | None:
    readers = [node for node, _ in value.uses()]
    return readers[0] if len(readers) == 1 and not value.is_graph_output() and is_operator(readers[0], kind) else None


def split(value: ir.Value | None, wanted: tuple[int, ...]) -> Operand | None:
    """An operand [batch, heads, ...] of a product that a Reshape and Transposes, and perhaps numbers, made of a sequence."""
    taken, factor, share, order = list[ir.Node](), 1.0, 1, (0, 1, 2, 3)
    while True:
        part, repeated = scaled(value), _repeated(value)
        if repeated is not None:
            value, share = repeated.source, share * repeated.share
            taken += repeated.taken
            continue
        value, factor = part.value, factor * part.factor
        taken += part.taken
        moved = made_by(value, "Transpose")
        if moved is None and not part.taken:
            break
        if moved is not None:
            perm = ints(moved, "perm", ())
            if len(perm) != len(order):
                return None
            order = tuple(perm[axis] for axis in order)
            taken.append(moved)
            value = moved.inputs[0]
    reshape = made_by(value, "Reshape")
    source = reshape.inputs[0] if reshape is not None else None
    after, before = known_shape(reshape.outputs[0]) if reshape is not None else None, known_shape(source)
    if reshape is None or source is None or after is None or before is None or order != wanted or len(after) != 4 or len(before) != 3:
        return None
    if (after[0], after[1], after[2] * after[3]) != before:
        return None
    return Operand(source, after[2], factor, share, (*taken, reshape))


@dataclass(frozen=True)
class _Repeated:
    """source: [batch, heads, rows, channels] before each head was repeated."""

    source: ir.Value
    share: int
    taken: tuple[ir.Node, ...]


def _repeated(value: ir.Value | None) -> _Repeated | None:
    """A tensor whose heads an Unsqueeze, an Expand and a Reshape repeated, each behind itself, as exporters write it where several queries share a
    head of keys."""
    joined = made_by(value, "Reshape")
    spread = made_by(joined.inputs[0], "Expand") if joined is not None else None
    single = made_by(spread.inputs[0], "Unsqueeze", "Reshape") if spread is not None else None
    if joined is None or spread is None or single is None or (source := single.inputs[0]) is None:
        return None
    before, *after = (known_shape(each) or () for each in (source, single.outputs[0], spread.outputs[0], joined.outputs[0]))
    if len(before) != AXES or len(after[-1]) != AXES:
        return None
    (batch, heads, *rest), share = list(before), after[-1][1] // before[1]
    wanted = [(batch, heads, 1, *rest), (batch, heads, share, *rest), (batch, heads * share, *rest)]
    return _Repeated(source, share, (joined, spread, single)) if after == wanted else None
