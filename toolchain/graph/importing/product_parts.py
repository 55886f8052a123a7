"""A product by known weights of which others read parts alone, such as queries, keys and values side by side: a product for each part, by its columns
of the weights, so that no machine has to cut the result."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, is_operator, known_shape, sliced, substitute, typed_node


@dataclass(frozen=True)
class _Part:
    """cut: the Slice. columns: of the product that it keeps."""

    cut: ir.Node
    columns: slice


def split_products(model: ir.Model) -> None:
    """Changes the graph in place; results keep their names."""
    for node in list(model.graph):
        if is_operator(node, "MatMul") and (weights := constant(node.inputs[1])) is not None and weights.ndim == 2:
            added = _bias(node)
            parts = _parts((added or node).outputs[0])
            for number, part in enumerate(parts):
                _write(model.graph, node, added, part, number)
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


def _parts(value: ir.Value) -> list[_Part]:
    """Slices of the last axis that alone read a tensor, each of columns of its own; none where something else reads it."""
    readers = [user for user, _ in value.uses()]
    found = [_Part(user, kept) for user in readers if (kept := _columns(user)) is not None]
    ends = sorted((part.columns.start, part.columns.stop) for part in found)
    apart = all(before[1] <= after[0] for before, after in pairwise(ends))
    return found if len(found) == len(readers) > 1 and apart and not value.is_graph_output() else []


def _columns(node: ir.Node) -> slice | None:
    """The columns that a Slice along the last axis keeps, side by side."""
    axis, kept = sliced(node) or (-1, range(0))
    return slice(kept.start, kept.stop) if axis == len(known_shape(node.outputs[0]) or ()) - 1 and kept.step == 1 and len(kept) > 0 else None


def _write(graph: ir.Graph, product: ir.Node, added: ir.Node | None, part: _Part, number: int) -> None:
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
