"""How messages name nodes and shapes."""

import pytest
from onnx import helper

from toolchain.graph.nodes.node_text import node_text, shape_text


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (helper.make_node("Conv", ["x"], ["y"], "c"), "node 'c' (Conv)"),
        (helper.make_node("Conv", ["x"], ["y"]), "node 'y' (Conv)"),
        (helper.make_node("Gelu", ["x"], ["y"], "g", domain="mine"), "node 'g' (mine.Gelu)"),
        (helper.make_node("Relu", ["x"], ["y"], "r", domain="ai.onnx"), "node 'r' (Relu)"),
        (helper.make_node("Relu", ["x"], []), "node '' (Relu)"),
    ],
)
def test_nodes(node: object, wanted: str) -> None:
    assert node_text(node) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "wanted"), [((1, 3, 224, 224), "1x3x224x224"), ((1, None, "n"), "1x?xn"), ((), "scalar"), (None, "of unknown rank"), ((0,), "0")]
)
def test_shapes(shape: tuple[int | str | None, ...] | None, wanted: str) -> None:
    assert shape_text(shape) == wanted
