"""Parts of a tensor's channels: a Split becomes a Slice for each part that is read, and a Concat of all parts, in order, takes the whole; a product
of which others read parts alone, such as queries, keys and values side by side, becomes a product for each part.

A slice has one result, so it can be an operation. YOLO's blocks split a tensor and join its parts again with results of one of them. A product by its
columns of known weights has one result, too, so that no machine has to cut it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import (
    add_constant,
    constant,
    drop_unused_constants,
    free_names,
    given_names,
    integer,
    is_float,
    is_operator,
    known_shape,
    sliced,
    substitute,
    typed_node,
)

# Dense networks join all results so far before every layer. Written so, each tensor is part of one concatenation alone, and can be stored as such.

Operands = tuple[ir.Value | None, ...]


def chain_concats(model: ir.Model) -> None:
    """Changes operands in place; results, names and the order of the operators stay."""
    made: dict[tuple[int, Operands], ir.Value] = {}
    for node in model.graph:
        if is_operator(node, "Concat") and len(node.inputs) > 1:
            axis, operands = integer(node, "axis", 0), tuple(node.inputs)
            _shorten(node, axis, made)
            made.setdefault((axis, operands), node.outputs[0])


def _shorten(node: ir.Node, axis: int, made: dict[tuple[int, Operands], ir.Value]) -> None:
    """By the longest beginning that is there already."""
    operands = tuple(node.inputs)
    for count in range(len(operands) - 1, 1, -1):
        joined = made.get((axis, operands[:count]))
        if joined is not None:
            rest = operands[count:]
            node.resize_inputs(1 + len(rest))
            for place, value in enumerate((joined, *rest)):
                node.replace_input_with(place, value)
            return


CHANNELS = 1


def write_parts(model: ir.Model) -> None:
    """Changes nodes in place. Results keep their names; the first slice of a Split keeps its node's name."""
    for node in list(model.graph):
        if is_operator(node, "Split") and _along_channels(node):
            _slice(model.graph, node)
    for node in list(model.graph):
        if is_operator(node, "Concat") and _along_channels(node):
            _join(model.graph, node)
    drop_unused_constants(model.graph)


def _along_channels(node: ir.Node) -> bool:
    """Whether it works along the channels of pictures whose sizes are known."""
    return integer(node, "axis", 0) in (CHANNELS, CHANNELS - 4) and all(map(_is_picture, (node.inputs[0], *node.outputs)))


def _is_picture(value: ir.Value | None) -> bool:
    return is_float(value) and len(known_shape(value) or ()) == 4


def _join(graph: ir.Graph, node: ir.Node) -> None:
    """Slices that nothing else reads go."""
    old, wanted = [value for value in node.inputs if value is not None], list(_joined(node.inputs))
    if len(wanted) < len(old):
        node.resize_inputs(len(wanted))
        for place, value in enumerate(wanted):
            node.replace_input_with(place, value)
        unread = {maker: None for value in old if (maker := value.producer()) is not None and is_operator(maker, "Slice") and _is_unread(value)}
        for maker in unread:
            graph.remove(maker, safe=True)


def _is_unread(value: ir.Value) -> bool:
    return not value.uses() and not value.is_graph_output()


@dataclass(frozen=True)
class _Part:
    """Channels of a tensor from `first` to before `end`."""

    source: ir.Value
    first: int
    end: int


def _part_of(value: ir.Value | None) -> _Part | None:
    """The channels of a picture that a Slice takes; None for any other tensor."""
    node = None if value is None else value.producer()
    if node is None or (found := sliced(node)) is None or not all(map(_is_picture, (node.inputs[0], node.outputs[0]))):
        return None
    (axis, kept), source = found, node.inputs[0]
    return _Part(source, kept.start, kept.stop) if source is not None and axis == CHANNELS and kept.step == 1 else None


def _joined(operands: Sequence[ir.Value | None]) -> Iterator[ir.Value | None]:
    """The operands, with all parts of a tensor beside each other as that tensor."""
    at = 0
    while at < len(operands):
        source, count = _whole(operands[at:])
        yield source if source is not None else operands[at]
        at += max(count, 1)


def _whole(operands: Sequence[ir.Value | None]) -> tuple[ir.Value | None, int]:
    """The tensor whose parts the first operands are, and how many of them; None and 0 where they are none."""
    first = _part_of(operands[0])
    if first is None or first.first:
        return None, 0
    end, total = 0, (known_shape(first.source) or (0, 0))[CHANNELS]
    for position, value in enumerate(operands, 1):
        part = _part_of(value)
        if part is None or part.source is not first.source or part.first != end:
            return None, 0
        end = part.end
        if end == total:
            return first.source, position
    return None, 0


def _slice(graph: ir.Graph, node: ir.Node) -> None:
    source, first, own = node.inputs[0], 0, node.name or ""
    names = chain([own], free_names(own, given_names(graph), (own,)))
    for part in node.outputs:
        last = first + (known_shape(part) or (0, 0))[CHANNELS]
        if part.uses() or part.is_graph_output():
            limits = [add_constant(graph, f"{part.name}.{key}", np.array([at])) for key, at in (("first", first), ("end", last), ("axis", CHANNELS))]
            made = ir.node("Slice", [source, *limits], name=next(names), num_outputs=1)
            _take_over(graph, node, part, made)
        first = last
    graph.remove(node, safe=True)


def _take_over(graph: ir.Graph, node: ir.Node, part: ir.Value, made: ir.Node) -> None:
    """The slice makes the part, under its name."""
    result, name = made.outputs[0], part.name
    result.shape, result.type = part.shape, part.type
    result.metadata_props.update(part.metadata_props)
    graph.insert_before(node, made)
    part.replace_all_uses_with(result, replace_graph_outputs=True)
    part.name = f"{name}.gone"
    result.name = name


@dataclass(frozen=True)
class _Cut:
    """cut: the Slice. columns: of the product that it keeps."""

    cut: ir.Node
    columns: slice


def split_products(model: ir.Model) -> None:
    """Changes the graph in place; results keep their names."""
    for node in list(model.graph):
        if is_operator(node, "MatMul") and (weights := constant(node.inputs[1])) is not None and weights.ndim == 2:
            added = _bias(node)
            parts = _cuts((added or node).outputs[0])
            for number, part in enumerate(parts):
                _write_product(model.graph, node, added, part, number)
            if parts:
                model.graph.remove([each for each in (added, node) if each is not None], safe=True)
                drop_unused_constants(model.graph)


def _bias(product: ir.Node) -> ir.Node | None:
    """The Add of a known vector that alone reads a product."""
    readers = [user for user, _ in product.outputs[0].uses()]
    if len(readers) != 1 or not is_operator(readers[0], "Add") or product.outputs[0].is_graph_output():
        return None
    bias = constant(readers[0].inputs[1] if readers[0].inputs[0] is product.outputs[0] else readers[0].inputs[0])
    return readers[0] if bias is not None and bias.ndim == 1 and bias.shape[0] == (known_shape(product.outputs[0]) or (0,))[-1] else None


def _cuts(value: ir.Value) -> list[_Cut]:
    """Slices of the last axis that alone read a tensor, each of columns of its own; none where something else reads it."""
    readers = [user for user, _ in value.uses()]
    found = [_Cut(user, kept) for user in readers if (kept := _columns(user)) is not None]
    ends = sorted((part.columns.start, part.columns.stop) for part in found)
    apart = all(before[1] <= after[0] for before, after in pairwise(ends))
    return found if len(found) == len(readers) > 1 and apart and not value.is_graph_output() else []


def _columns(node: ir.Node) -> slice | None:
    """The columns that a Slice along the last axis keeps, side by side."""
    axis, kept = sliced(node) or (-1, range(0))
    return slice(kept.start, kept.stop) if axis == len(known_shape(node.outputs[0]) or ()) - 1 and kept.step == 1 and len(kept) > 0 else None


def _write_product(graph: ir.Graph, product: ir.Node, added: ir.Node | None, part: _Cut, number: int) -> None:
    x, held = product.inputs
    weights, shape, kind = constant(held), known_shape(part.cut.outputs[0]) or (), part.cut.outputs[0].type
    assert x is not None
    assert held is not None
    assert weights is not None
    own = add_constant(graph, f"{held.name}.{number}", np.ascontiguousarray(weights[:, part.columns]))
    made = [typed_node(graph, "MatMul", [x, own], shape, kind, f"{product.name}.{number}")]
    if added is not None:
        (bias,) = (value for value in added.inputs if value is not None and value is not product.outputs[0])
        vector = constant(bias)
        assert vector is not None
        own = add_constant(graph, f"{bias.name}.{number}", vector[part.columns].copy())
        made.append(typed_node(graph, "Add", [made[0].outputs[0], own], shape, kind, f"{added.name}.{number}"))
    substitute(graph, [part.cut], made)
