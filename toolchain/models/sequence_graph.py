"""The nodes of layers on sequences, spelled as exporters spell them."""

import numpy as np

from toolchain.models.graph_nodes import GraphNodes
from toolchain.models.operators import Attention, Embedding, Gated, Interaction, Layer, LayerNorm, Positions, Sequential, Shape, Strip, Token, Tokens

UNSEEN = -10_000.0
"""Added to the score of a row that may not be seen: its share is 0 in float32 and in f16."""


def emit_sequential(graph: GraphNodes, layer: Layer, operator: Sequential) -> None:
    """Adds the nodes of a layer whose operator is `operator`; the last one gives the layer's result."""
    shape = graph.shapes[layer.inputs[0]]
    match operator:
        case Embedding(rows=rows, out=out):
            (table,) = graph.own(layer.name, {"table": (rows, out)})
            graph.last("Gather", layer, [table, *layer.inputs], axis=0)
        case Positions():
            graph.last("Add", layer, [*layer.inputs, *graph.own(layer.name, {"table": shape[1:]})])
        case LayerNorm(epsilon=epsilon):
            own = graph.own(layer.name, dict.fromkeys(("scale", "bias"), shape[-1:]))
            graph.last("LayerNormalization", layer, [*layer.inputs, *own], axis=-1, epsilon=epsilon)
        case Attention():
            _attention(graph, layer, operator)
        case Tokens(first=first):
            _tokens(graph, layer, first)
        case Token(at=at):
            graph.last("Gather", layer, [*layer.inputs, graph.constant(f"{layer.name}.at", np.array(at, np.int64))], axis=1)
        case Strip():
            _strip(graph, layer)
        case Gated():
            _gated(graph, layer)
        case Interaction():
            _interaction(graph, layer)


def dense(graph: GraphNodes, name: str, x: str, out: int, bias: bool = True, parameters: str = "") -> str:
    """A product of each row with weights [width, out], and a bias; answers with the result. parameters: their prefix, the name where left out."""
    shape, prefix = graph.shapes[x], parameters or name
    (weights,) = graph.own(prefix, {"weight": (shape[-1], out)})
    product = graph.inner("MatMul", f"{name}.product" if bias else name, [x, weights], (*shape[:-1], out))
    return graph.inner("Add", name, [product, *graph.own(prefix, {"bias": (out,)})], (*shape[:-1], out)) if bias else product


def _attention(graph: GraphNodes, layer: Layer, operator: Attention) -> None:
    (x,), p, heads = layer.inputs, layer.name, operator.heads
    batch, rows, width = graph.shapes[x]
    inner = width // heads
    apart = graph.constant(f"{p}.by_heads", np.array([0, 0, heads, inner], np.int64))
    q, k, v = (_heads(graph, dense(graph, f"{p}.{name}", x, width), apart, (batch, rows, heads, inner), name == "keys") for name in PROJECTIONS)
    square = (batch, heads, rows, rows)
    scores = graph.inner("MatMul", f"{p}.scores", [q, k], square)
    scores = graph.inner("Div", f"{p}.scaled", [scores, graph.constant(f"{p}.root", np.float32(np.sqrt(inner)))], square)
    if operator.causal:
        later = np.triu(np.full((1, 1, rows, rows), UNSEEN, np.float32), 1)
        scores = graph.inner("Add", f"{p}.masked", [scores, graph.constant(f"{p}.mask", later)], square)
    shares = graph.inner("Softmax", f"{p}.shares", [scores], square, axis=-1)
    sums = graph.inner("MatMul", f"{p}.sums", [shares, v], (batch, heads, rows, inner))
    turned = graph.inner("Transpose", f"{p}.turned", [sums], (batch, rows, heads, inner), perm=(0, 2, 1, 3))
    joined = graph.constant(f"{p}.joined", np.array([0, 0, width], np.int64))
    dense(graph, p, graph.inner("Reshape", f"{p}.context", [turned, joined], (batch, rows, width)), width, parameters=f"{p}.{RESULT}")


PROJECTIONS, RESULT = ("queries", "keys", "values"), "result"


def _heads(graph: GraphNodes, x: str, apart: str, shape: Shape, turned: bool) -> str:
    """[batch, heads, rows, inner], or [batch, heads, inner, rows] where the product wants the rows last."""
    split = graph.inner("Reshape", f"{x}.apart", [x, apart], shape)
    perm = (0, 2, 3, 1) if turned else (0, 2, 1, 3)
    return graph.inner("Transpose", f"{x}.heads", [split], tuple(shape[axis] for axis in perm), perm=perm)


def _tokens(graph: GraphNodes, layer: Layer, first: bool) -> None:
    (x,), p = layer.inputs, layer.name
    batch, channels, height, width = graph.shapes[x]
    sizes = graph.constant(f"{p}.sizes", np.array([0, channels, height * width], np.int64))
    flat = graph.inner("Reshape", f"{p}.flat", [x, sizes], (batch, channels, height * width))
    if not first:
        graph.last("Transpose", layer, [flat], perm=(0, 2, 1))
        return
    rows = graph.inner("Transpose", f"{p}.rows", [flat], (batch, height * width, channels), perm=(0, 2, 1))
    graph.last("Concat", layer, [*graph.own(p, {"first": (1, 1, channels)}), rows], axis=1)


def _strip(graph: GraphNodes, layer: Layer) -> None:
    (x,), p = layer.inputs, layer.name
    batch, rows, width = graph.shapes[x]
    turned = graph.inner("Transpose", f"{p}.turned", [x], (batch, width, rows), perm=(0, 2, 1))
    graph.last("Unsqueeze", layer, [turned, graph.constant(f"{p}.axis", np.array([3], np.int64))])


def _gated(graph: GraphNodes, layer: Layer) -> None:
    p, shape = layer.name, layer.shape
    kept, gate = graph.several("Split", f"{p}.halves", layer.inputs, {f"{p}.kept": shape, f"{p}.gate": shape}, axis=-1, num_outputs=2)
    graph.last("Mul", layer, [kept, graph.inner("Sigmoid", f"{p}.open", [gate], shape)])


def _interaction(graph: GraphNodes, layer: Layer) -> None:
    (vector, others), p = layer.inputs, layer.name
    batch, rows, width = graph.shapes[others]
    count = rows + 1
    sizes = graph.constant(f"{p}.sizes", np.array([0, 1, width], np.int64))
    row = graph.inner("Reshape", f"{p}.row", [vector, sizes], (batch, 1, width))
    every = graph.inner("Concat", f"{p}.vectors", [row, others], (batch, count, width), axis=1)
    turned = graph.inner("Transpose", f"{p}.turned", [every], (batch, width, count), perm=(0, 2, 1))
    products = graph.inner("MatMul", f"{p}.products", [every, turned], (batch, count, count))
    flat = graph.inner("Flatten", f"{p}.flat", [products], (batch, count * count), axis=1)
    left, right = np.tril_indices(count, -1)
    pairs = graph.constant(f"{p}.pairs", (left * count + right).astype(np.int64))
    graph.last("Concat", layer, [vector, graph.inner("Gather", f"{p}.below", [flat, pairs], (batch, len(left)), axis=1)], axis=1)
