"""Sequences as pictures one pixel wide: the same numbers, no reshape that need not be, and whole networks as one region."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.random_graphs import SEQUENCES, Graph, samples
from tests.graph.imported import F, imported, node_of, normal, run
from tests.graph.onnx_builder import n
from toolchain.graph.equivalence import find_mismatch
from toolchain.graph.importing.load import load_graph
from toolchain.graph.rewrite import add_constant, constant, known_shape
from toolchain.passes.as_pictures import AsPictures
from toolchain.passes.context import Context
from toolchain.passes.fold import FoldConstants
from toolchain.passes.simplify import RemoveDead

SEQUENCE = (1, 3, 16)


def changed(folder: Path, nodes: list[onnx.NodeProto], **constants: np.ndarray) -> Counter[str]:
    """Operators after the pass, which computes the same outputs."""
    graph = FoldConstants().run(imported(folder, nodes, SEQUENCE, constants), Context())
    x = {"x": normal(9, *SEQUENCE)}
    wanted = run(graph, x)
    found = run(RemoveDead().run(AsPictures().run(graph, Context()), Context()), x)
    assert wanted.keys() == found.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    return Counter(node.op_type for node in graph.graph)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 20), st.lists(st.integers(0, len(SEQUENCES) - 1), min_size=1, max_size=8))
def test_random_graphs_of_sequences(tmp_path_factory: pytest.TempPathFactory, seed: int, kinds: list[int]) -> None:
    graph = Graph(np.random.default_rng(seed))
    graph.inputs["x"] = graph.shapes["x"] = (1, graph.one_of(1, 4, 6), graph.integer(1, 20))
    for kind in kinds:
        SEQUENCES[kind](graph, graph.newest(3) or "x")
    if not graph.nodes:
        graph.add("Relu", ["x"], graph.shapes["x"])
    path = tmp_path_factory.mktemp("m") / "net.onnx"
    onnx.save(graph.model(), path)
    before = FoldConstants().run(load_graph(path, {}), Context())
    after = AsPictures().run(FoldConstants().run(load_graph(path, {}), Context()), Context())
    fed = {name: array[0] for name, array in samples(graph, seed, 1).items()}
    wanted, found = run(before, fed), run(after, fed)
    assert [value.name for value in after.graph.outputs] == [value.name for value in before.graph.outputs]
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-4 * float(np.abs(array).max(initial=0)))
    left = [node for node in after.graph if node.op_type in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "Resize")]
    assert all(len(known_shape(node.outputs[0]) or ()) == 4 for node in left)
    assert find_mismatch(before, after, {}) is None


def test_a_whole_network_has_reshapes_at_its_ends_alone(tmp_path: Path) -> None:
    nodes = [
        n("Pad", ["x", "around"], ["p"]),
        n("Conv", ["p", "w"], ["c"], strides=[2]),
        n("PRelu", ["c", "slopes"], ["r"]),
        n("MaxPool", ["r"], ["m"], kernel_shape=[2], strides=[2]),
        n("ConvTranspose", ["m", "v"], ["u"], strides=[2], output_padding=[1]),
        n("Slice", ["u", "first", "last", "length"], ["s"]),
        n("Concat", ["s", "c"], ["y"], axis=-2),
    ]
    known = {"around": np.array([0, 0, 2, 0, 0, 2]), "w": normal(0, 3, 3, 5), "slopes": normal(1, 3, 1), "v": normal(2, 3, 2, 3)}
    ends = {"first": np.array([0]), "last": np.array([8]), "length": np.array([-1])}
    assert changed(tmp_path, nodes, **known, **ends) == Counter(node.op_type for node in nodes) + Counter({"Reshape": 2})


def test_reshapes_of_the_model_join_those_of_the_pass(tmp_path: Path) -> None:
    """An axis that the model adds behind the length is the picture's own, and flattening reads the picture."""
    nodes = [
        n("Conv", ["x", "w"], ["c"]),
        n("Unsqueeze", ["c", "three"], ["picture"]),
        n("MaxPool", ["picture"], ["m"], kernel_shape=[2, 1]),
        n("Squeeze", ["m", "three"], ["sequence"]),
        n("GlobalAveragePool", ["sequence"], ["g"]),
        n("Squeeze", ["g", "two"], ["y"]),
    ]
    known = {"w": normal(0, 3, 3, 3), "three": np.array([3]), "two": np.array([2])}
    assert changed(tmp_path, nodes, **known) == Counter({"Reshape": 2, "Conv": 1, "MaxPool": 1, "GlobalAveragePool": 1})


def test_rows_behind_products_and_weights_that_are_computed_stay(tmp_path: Path) -> None:
    rows = [n("MatMul", ["x", "m"], ["a"]), n("Add", ["a", "b"], ["c"]), n("Conv", ["c", "w"], ["y"])]
    known = {"m": normal(0, 16, 8), "b": normal(1, 8), "w": normal(2, 2, 3, 3)}
    assert changed(tmp_path, rows, **known) == Counter({"MatMul": 1, "Add": 1, "Conv": 1, "Reshape": 2})
    computed = [n("Tanh", ["x"], ["w"]), n("Conv", ["x", "w"], ["y"])]
    assert changed(tmp_path, computed) == Counter({"Tanh": 1, "Conv": 1})


def test_weights_that_are_shared_stay_shared(tmp_path: Path) -> None:
    nodes = [n("Conv", ["x", "w"], ["a"], pads=[1, 1]), n("Conv", ["a", "w"], ["y"], pads=[1, 1])]
    graph = AsPictures().run(imported(tmp_path, nodes, SEQUENCE, {"w": normal(0, 3, 3, 3)}), Context())
    first, second = (node.inputs[1] for node in graph.graph if node.op_type == "Conv")
    assert first is second


def test_an_operator_that_computes_otherwise_is_named(tmp_path: Path) -> None:
    """Pieces of both forms are fed alike, and a tensor keeps its name."""
    nodes = [n("Conv", ["x", "w"], ["a"], "one", pads=[1, 1]), n("Relu", ["a"], ["b"], "two"), n("Conv", ["b", "w"], ["y"], "three", pads=[1, 1])]
    before = imported(tmp_path, nodes, SEQUENCE, {"w": normal(0, 3, 3, 3)})
    after = AsPictures().run(imported(tmp_path, nodes, SEQUENCE, {"w": normal(0, 3, 3, 3)}), Context())
    assert [value.name for node in after.graph for value in node.outputs] == ["x.picture", "a", "b", "y.picture", "y"]
    conv = next(node for node in after.graph if node.name == "one")
    weights = constant(conv.inputs[1])
    assert weights is not None
    conv.replace_input_with(1, add_constant(after.graph, "other", weights * F(1.1)))
    found = find_mismatch(before, after, {})
    assert found is not None
    assert (found.node, found.tensor) == ("one", "a")


def test_a_convolution_of_volumes_stays(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Conv", ["x", "w"], ["y"])], (1, 2, 4, 4, 4), {"w": normal(0, 2, 2, 3, 3, 3)})
    assert known_shape(node_of(AsPictures().run(graph, Context()), "Conv").outputs[0]) == (1, 2, 2, 2, 2)
