"""Nodes that change nothing, lead nowhere or only pad go; results stay."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.passes.context import Context
from toolchain.passes.simplify import MergePads, RemoveDead, RemoveIdentity


def test_chains_that_end_nowhere(tmp_path: Path) -> None:
    nodes = [
        n("Add", ["x", "k"], ["a"], "read"),
        n("Mul", ["x", "m"], ["b"], "dead"),
        n("Neg", ["b"], ["c"], "deader"),
        n("Split", ["a"], ["y", "unread"], "split", axis=0, num_outputs=2),
    ]
    proto = model(nodes, {"x": [2, 3], "unused": [1]}, {"y": None}, {"k": F(1), "m": F(2)})
    graph, x = load_graph(save(proto, tmp_path)), {"x": normal(0, 2, 3), "unused": np.zeros(1, F)}
    wanted = run(graph, x)["y"]
    result = RemoveDead().run(graph, Context())
    assert [node.name for node in result.graph] == ["read", "split"]
    assert list(result.graph.initializers) == ["k"]
    assert [value.name for value in result.graph.inputs] == ["x", "unused"]
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


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


LEAST = float(np.finfo(np.float32).min)


def padded(tmp_path: Path, fill: float, margins: list[int], relu: bool, **pool: object) -> tuple[ir.Model, dict[str, np.ndarray]]:
    nodes = [n("Relu", ["x"], ["r"])] if relu else []
    nodes += [n("Pad", ["r" if relu else "x", "p", "v"], ["a"]), n("MaxPool", ["a"], ["y"], **({"kernel_shape": [3, 3]} | pool))]
    graph = imported(tmp_path, nodes, constants={"p": np.array(margins, np.int64), "v": F(fill)}, x=(1, 3, 6, 6))
    return graph, {"x": normal(0, 1, 3, 6, 6)}


def kinds(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([LEAST, -np.inf, -1e6, 0.0, 2.0]),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.booleans(),
    st.lists(st.integers(0, 1), min_size=4, max_size=4),
    st.integers(1, 2),
)
def test_the_results_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, fill: float, sides: list[int], relu: bool, own: list[int], stride: int
) -> None:
    pads = [0, 0, *sides[:2], 0, 0, *sides[2:]]
    graph, x = padded(tmp_path_factory.mktemp("m"), fill, pads, relu, pads=own, strides=[stride, stride])
    (wanted,) = run(graph, x).values()
    made = MergePads().run(graph, Context())
    (found,) = run(made, x).values()
    np.testing.assert_array_equal(found, wanted)
    fits = all(a + b < 3 for a, b in zip(sides, own, strict=True))
    assert ("Pad" in kinds(made)) == (not fits or fill > (0.0 if relu else LEAST))


@pytest.mark.parametrize(
    "pool", [{"dilations": [2, 2], "pads": [0, 0, 0, 0]}, {"auto_pad": "SAME_UPPER"}, {"kernel_shape": [1, 1]}], ids=["dilated", "automatic", "small"]
)
def test_windows_that_could_miss_the_picture_keep_the_pad(tmp_path: Path, pool: dict[str, object]) -> None:
    graph, _ = padded(tmp_path, LEAST, [0, 0, 1, 1, 0, 0, 1, 1], relu=False, **pool)
    assert "Pad" in kinds(MergePads().run(graph, Context()))


def test_padded_channels_and_cropped_rows_stay(tmp_path: Path) -> None:
    for number, pads in enumerate(([0, 1, 0, 0, 0, 0, 0, 0], [0, 0, -1, 0, 0, 0, 0, 0])):
        (folder := tmp_path / str(number)).mkdir()
        graph, _ = padded(folder, LEAST, pads, relu=False)
        assert "Pad" in kinds(MergePads().run(graph, Context()))


def test_a_padded_tensor_with_another_reader_stays(tmp_path: Path) -> None:
    nodes = [n("Pad", ["x", "p", "v"], ["a"]), n("MaxPool", ["a"], ["m"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), n("Add", ["a", "m"], ["y"])]
    graph = imported(tmp_path, nodes, constants={"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "v": F(LEAST)})
    assert "Pad" in kinds(MergePads().run(graph, Context()))
