"""Operands that do not fit are told with node and shapes; what ONNX Runtime runs is taken, whatever strict inference says."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.graph.imported import F, imported
from toolchain.spec.errors import UserError

n = helper.make_node
WRONG = {
    "sizes of a sum": ([n("Add", ["x", "k"], ["y"], "s")], {"k": np.ones((1, 5), F)}, "node 's' (Add): Incompatible dimensions (operands 'x' 2x3, "),
    "a concat": ([n("Concat", ["x", "k"], ["y"], "joined", axis=1)], {"k": np.ones((3, 3), F)}, "node 'joined' (Concat): "),
    "a product": ([n("MatMul", ["x", "k"], ["y"], "product")], {"k": np.ones((4, 3), F)}, "node 'product' (MatMul): Incompatible dimensions"),
    "in the middle": ([n("Relu", ["x"], ["a"]), n("Mul", ["a", "k"], ["b"], "m"), n("Neg", ["b"], ["y"])], {"k": np.ones(7, F)}, "node 'm' (Mul): "),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_the_node_that_does_not_fit(case: str, tmp_path: Path) -> None:
    nodes, constants, words = WRONG[case]
    with pytest.raises(UserError) as caught:
        imported(tmp_path, nodes, (2, 3), constants)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'net.onnx'}: E0907 {words}")
    assert "\n" not in text


def test_shapes_that_depend_on_the_data_are_taken(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("NonZero", ["x"], ["a"]), n("Cast", ["a"], ["y"], to=1)], (2, 3))
    assert [node.outputs[0].shape is not None and node.outputs[0].shape.is_static() for node in graph.graph] == [False, False]
