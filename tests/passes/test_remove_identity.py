"""Operators that pass their operand on are taken out, and no others."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.graph.imported import F, imported, normal, run
from toolchain.passes.context import Context
from toolchain.passes.remove_identity import RemoveIdentity

n = helper.make_node
CONSTANTS = {"none": np.zeros(8, np.int64), "some": np.array([0, 0, 1, 0, 0, 0, 0, 0]), "same": np.array([1, 3, 4, 4]),
             "other": np.array([1, 12, 2, 2]), "half": F(0.5), "yes": np.array(True), "no": np.array(False),
             "one": np.ones((3, 1, 1), F), "zero": F(0), "wide": np.ones((2, 3, 4, 4), F)}  # fmt: skip
GONE = {
    "identity": n("Identity", ["a"], ["b"]),
    "dropout": n("Dropout", ["a"], ["b"]),
    "dropout that says so": n("Dropout", ["a", "half", "no"], ["b"]),
    "pad by nothing": n("Pad", ["a", "none"], ["b"]),
    "reshape to the same": n("Reshape", ["a", "same"], ["b"]),
    "cast to the same": n("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
    "concat of one": n("Concat", ["a"], ["b"], axis=1),
    "maximum of one": n("Max", ["a"], ["b"]),
    "product with one": n("Mul", ["a", "one"], ["b"]),
    "quotient by one": n("Div", ["a", "one"], ["b"]),
    "sum with zero": n("Add", ["a", "zero"], ["b"]),
    "difference to zero": n("Sub", ["a", "zero"], ["b"]),
}
STAY = {
    "pad": n("Pad", ["a", "some"], ["b"]),
    "reshape": n("Reshape", ["a", "other"], ["b"]),
    "cast": n("Cast", ["a"], ["b"], to=TensorProto.FLOAT16),
    "concat of two": n("Concat", ["a", "a"], ["b"], axis=1),
    "product with a half": n("Mul", ["a", "half"], ["b"]),
    "product with zero": n("Mul", ["a", "zero"], ["b"]),
    "sum with one": n("Add", ["a", "one"], ["b"]),
    "one over it": n("Div", ["one", "a"], ["b"]),
    "product that is larger": n("Mul", ["a", "wide"], ["b"]),
    "a mask that is read": n("Dropout", ["a"], ["d", "b"]),
    "dropout in training": n("Dropout", ["a", "half", "yes"], ["b"], seed=1),
}


def around(folder: Path, node: onnx.NodeProto) -> list[str]:
    """The operators that are left of a ReLU, the node and two casts; the result stays, but of random numbers."""
    ends = [n("Cast", ["b"], ["c"], to=TensorProto.DOUBLE), n("Cast", ["c"], ["y"], to=TensorProto.FLOAT)]
    graph, x = imported(folder, [n("Relu", ["x"], ["a"]), node, *ends], constants=CONSTANTS), {"x": normal(0, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    found = run(RemoveIdentity().run(graph, Context()), x)["y"]
    if "yes" not in node.input:
        np.testing.assert_array_equal(found, wanted)
    return [each.op_type for each in graph.graph]


@pytest.mark.parametrize("case", GONE)
def test_what_changes_nothing_goes(case: str, tmp_path: Path) -> None:
    assert around(tmp_path, GONE[case]) == ["Relu", "Cast", "Cast"]


@pytest.mark.parametrize("case", STAY)
def test_what_changes_something_stays(case: str, tmp_path: Path) -> None:
    assert around(tmp_path, STAY[case]) == ["Relu", STAY[case].op_type, "Cast", "Cast"]


def test_a_chain_goes_whole(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Identity", ["x"], ["a"]), n("Identity", ["a"], ["b"]), n("Relu", ["b"], ["c"]), n("Identity", ["c"], ["y"])])
    result = RemoveIdentity().run(graph, Context())
    assert [(node.op_type, node.outputs[0].name) for node in result.graph] == [("Relu", "y")]
