"""Counts by hand for each operator that multiplies."""

import pytest
from onnx import helper

from toolchain.models.macs import graph_macs, node_macs

SHAPES = {
    "x": (1, 6, 8, 8), "w": (10, 3, 3, 2), "y": (1, 10, 4, 4), "up": (6, 5, 2, 2), "z": (1, 5, 16, 16),
    "a": (7, 20), "at": (20, 7), "b": (20, 9), "c": (7, 9), "m": (2, 3, 7, 20), "n": (2, 3, 7, 9),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "attributes", "expected"),
    [
        ("Conv", ["x", "w"], "y", {"group": 2}, 4 * 4 * 10 * 3 * 3 * 2),
        ("ConvInteger", ["x", "w"], "y", {"group": 2}, 4 * 4 * 10 * 3 * 3 * 2),
        ("QLinearConv", ["x", "", "", "w"], "y", {}, 4 * 4 * 10 * 3 * 3 * 2),
        ("ConvTranspose", ["x", "up"], "z", {}, 6 * 8 * 8 * 5 * 2 * 2),
        ("Gemm", ["a", "b"], "c", {}, 7 * 20 * 9),
        ("Gemm", ["at", "b"], "c", {"transA": 1}, 7 * 20 * 9),
        ("MatMul", ["m", "b"], "n", {}, 2 * 3 * 7 * 20 * 9),
        ("MatMulInteger", ["a", "b"], "c", {}, 7 * 20 * 9),
        ("Relu", ["x"], "x", {}, 0),
    ],
)
def test_a_nodes_macs(kind: str, inputs: list[str], output: str, attributes: dict[str, int], expected: int) -> None:
    assert node_macs(helper.make_node(kind, inputs, [output], **attributes), SHAPES) == expected


def test_a_graph_lists_the_nodes_that_multiply() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], name="first"),
        helper.make_node("Relu", ["y"], ["r"]),
        helper.make_node("Gemm", ["a", "b"], ["c"]),
    ]
    assert graph_macs(nodes, SHAPES) == {"first": 2880, "c": 1260}
