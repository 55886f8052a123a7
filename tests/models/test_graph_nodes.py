"""Nodes, parameters and constants as layers add them."""

import numpy as np

from toolchain.models.graph_nodes import GraphNodes
from toolchain.models.operators import Layer, Softmax
from toolchain.spec.errors import Source, Span


def test_names_and_shapes_of_what_a_layer_adds() -> None:
    graph = GraphNodes({"x": (1, 4)})
    layer = Layer("out", Softmax(), ("x",), (1, 4), Span(Source("m.yaml", ""), 1, 1))
    assert list(graph.own("out", {"weight": (4, 4), "bias": (4,)})) == ["out.weight", "out.bias"]
    assert graph.parameters == {"out.weight": (4, 4), "out.bias": (4,)}
    inner = graph.inner("MatMul", "out.product", ["x", "out.weight"], (1, 4))
    assert graph.several("Split", "out.halves", [inner], {"out.a": (1, 2), "out.b": (1, 2)}, axis=-1) == ("out.a", "out.b")
    assert (graph.shapes["out.a"], graph.nodes.pop().op_type) == ((1, 2), "Split")
    graph.last("Softmax", layer, [inner], axis=-1)
    assert graph.shapes["out.product"] == (1, 4)
    assert [(node.name, list(node.input), list(node.output)) for node in graph.nodes] == [
        ("out.product", ["x", "out.weight"], ["out.product"]),
        ("out", ["out.product"], ["out"]),
    ]
    assert graph.constant("out.root", np.float32(2)) == "out.root"
    assert graph.constants[0].dims == []
