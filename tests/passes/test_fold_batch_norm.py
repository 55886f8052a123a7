"""Which layers take in what follows them; test_fold.py has the results."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.passes.context import Context
from toolchain.passes.fold_batch_norm import FoldBatchNorm, foldable


@pytest.mark.parametrize(
    ("bias", "taken"), [((), True), ((1,), True), ((4,), True), ((1, 4), True), ((3, 1), False), ((3, 4), False), ((1, 1), True), (None, True)]
)
def test_a_dense_layer_takes_a_factor_in_where_its_bias_stands_along_the_channels(bias: tuple[int, ...] | None, taken: bool, tmp_path: Path) -> None:
    constants = {"w": normal(0, 5, 4), "k": np.array([1, 2, 3, 4], F)} | ({} if bias is None else {"b": normal(1, *bias)})
    nodes = [n("Gemm", ["x", "w", *(["b"] if bias is not None else [])], ["g"], "dense", alpha=0.5), n("Mul", ["g", "k"], ["y"], "scale")]
    graph, x = imported(tmp_path, nodes, (3, 5), constants), {"x": normal(2, 3, 5)}
    wanted = run(graph, x)["y"]
    assert foldable(next(iter(graph.graph)).outputs[0]) == taken
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == (["Gemm"] if taken else ["Gemm", "Mul"])
    np.testing.assert_allclose(run(result, x)["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "first",
    [n("ConvTranspose", ["x", "w"], ["c"]), n("Relu", ["x"], ["c"]), n("Conv", ["x", "x"], ["c"]), n("Gemm", ["f", "f"], ["c"], transB=1, beta=0.5)],
)
def test_other_makers_take_nothing_in(first: object, tmp_path: Path) -> None:
    nodes = [n("Flatten", ["x"], ["f"]), first, n("Identity", ["c"], ["y"])]
    graph = imported(tmp_path, nodes, (4, 4, 4, 4), {"w": normal(0, 4, 4, 1, 1)})  # type: ignore[list-item]
    maker = next(node for node in graph.graph if node.outputs[0].name == "c")
    assert not foldable(maker.outputs[0])


def test_a_tensor_that_others_read_is_not_changed(tmp_path: Path) -> None:
    nodes = [n("Conv", ["x", "w"], ["c"]), n("Mul", ["c", "k"], ["m"]), n("Add", ["c", "m"], ["y"])]
    graph, x = imported(tmp_path, nodes, constants={"w": normal(0, 3, 3, 1, 1), "k": F(2)}), {"x": normal(1, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert len(result.graph) == 3
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


def test_those_that_follow_no_layer_become_one(tmp_path: Path) -> None:
    known = {"s": normal(0, 3), "o": normal(1, 3), "m": normal(2, 3), "v": np.abs(normal(3, 3)), "k": normal(4, 3, 1, 1), "d": normal(5, 3, 1, 1)}
    norm = n("BatchNormalization", ["r", "s", "o", "m", "v"], ["b"])
    nodes = [n("Relu", ["x"], ["r"]), norm, n("Mul", ["b", "k"], ["p"]), n("Add", ["p", "d"], ["q"]), n("Relu", ["q"], ["y"])]
    graph, x = imported(tmp_path, nodes, constants=known), {"x": normal(6, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["Relu", "BatchNormalization", "Relu"]
    np.testing.assert_allclose(run(result, x)["y"], wanted, rtol=1e-5, atol=1e-6)


def test_one_that_others_read_stays_apart(tmp_path: Path) -> None:
    nodes = [n("Relu", ["x"], ["r"]), n("Mul", ["r", "k"], ["p"]), n("Add", ["p", "k"], ["q"]), n("Add", ["p", "q"], ["y"])]
    graph, x = imported(tmp_path, nodes, constants={"k": normal(0, 3, 1, 1)}), {"x": normal(1, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["Relu", "Mul", "Add", "Add"]
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([1, 2, 4]), st.booleans(), st.booleans())
def test_the_layer_after_takes_a_scale_and_an_offset_in(
    tmp_path_factory: pytest.TempPathFactory, seed: int, group: int, biased: bool, pad: bool
) -> None:
    rng = np.random.default_rng(seed)
    known = {"k": rng.uniform(0.6, 2, (4, 1, 1)).astype(F), "w": rng.normal(size=(8, 4 // group, 3, 3)).astype(F), "b": rng.normal(size=8).astype(F)}
    known |= {} if pad else {"o": rng.normal(size=(4, 1, 1)).astype(F)}
    affine = [n("Mul", ["r", "k"], ["p"], "scale"), *([] if pad else [n("Add", ["p", "o"], ["q"], "offset")])]
    layer = n("Conv", ["p" if pad else "q", "w", *(["b"] if biased else [])], ["y"], "layer", group=group, pads=[int(pad)] * 4)
    graph = imported(tmp_path_factory.mktemp("f"), [n("Relu", ["x"], ["r"]), *affine, layer], (2, 4, 5, 5), known)
    x = {"x": rng.normal(size=(2, 4, 5, 5)).astype(F)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["Relu", "Conv"]
    np.testing.assert_allclose(run(result, x)["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("factors", "offset", "pads"), [([1, 2, 3], 0.5, 1), ([1, 2, 8], 0.0, 0), ([1, 2, 0], 0.5, 0), ([1, float("inf"), 2], 0.0, 0)]
)
def test_zeros_around_and_unlike_factors_keep_a_scale_apart(factors: list[float], offset: float, pads: int, tmp_path: Path) -> None:
    known = {"k": np.array(factors, F).reshape(3, 1, 1), "o": np.full((3, 1, 1), offset, F), "w": normal(0, 4, 3, 3, 3)}
    nodes = [n("Relu", ["x"], ["r"]), n("Mul", ["r", "k"], ["p"]), n("Add", ["p", "o"], ["q"]), n("Conv", ["q", "w"], ["y"], pads=[pads] * 4)]
    result = FoldBatchNorm().run(imported(tmp_path, nodes, (1, 3, 4, 4), known), Context())
    assert len(result.graph) > 2
