"""A scale and an offset for each channel are what ONNX Runtime computes, or the node is none."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import Array, F, imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.graph.operators.affine import affine_of, per_channel

SHAPES = ((3, 1, 1), (1, 3, 1, 1), (1,), (), (1, 1, 1, 1), (1, 1))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(["Mul", "Add", "Sub", "Div"]), st.sampled_from(SHAPES), st.booleans())
def test_a_constant_for_each_channel(tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str, shape: tuple[int, ...], turned: bool) -> None:
    values = np.random.default_rng(seed).uniform(0.5, 2, shape).astype(F)
    graph = imported(tmp_path_factory.mktemp("a"), [n(kind, ["k", "x"] if turned else ["x", "k"], ["y"])], constants={"k": values})
    found = affine_of(next(iter(graph.graph)))
    if turned and kind in ("Sub", "Div"):
        assert found is None
        return
    assert found is not None
    x = normal(seed, 1, 3, 4, 4)
    wanted = run(graph, {"x": x})["y"]
    np.testing.assert_allclose(x * found[1].reshape(3, 1, 1) + found[2].reshape(3, 1, 1), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_batch_norm(epsilon: float, tmp_path: Path) -> None:
    constants = {name: np.random.default_rng(number).uniform(0.5, 2, 3).astype(F) for number, name in enumerate("stmv")}
    graph = imported(tmp_path, [n("BatchNormalization", ["x", *"stmv"], ["y"], epsilon=epsilon)], constants=constants)
    found, x = affine_of(next(iter(graph.graph))), normal(0, 1, 3, 4, 4)
    assert found is not None
    np.testing.assert_allclose(x * found[1].reshape(3, 1, 1) + found[2].reshape(3, 1, 1), run(graph, {"x": x})["y"], rtol=1e-5, atol=1e-5)


NONE = {
    "along the width": {"k": np.ones((1, 1, 1, 4), F)},
    "one number a pixel": {"k": np.ones((4, 4), F)},
    "another rank": {"k": np.ones((2, 1, 3, 1, 1), F)},
    "division by zero": {"k": np.array([[[1]], [[0]], [[1]]], F)},
}


@pytest.mark.parametrize("case", NONE)
def test_other_operators_are_none(case: str, tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Div", ["x", "k"], ["y"])], constants=NONE[case])
    assert affine_of(next(iter(graph.graph))) is None


@given(st.sampled_from([(), (1,), (5,), (1, 5), (5, 1), (2, 1), (2, 5), (1, 1, 5)]))
def test_a_vector_along_the_channels_stands_for_the_broadcast_constant(shape: tuple[int, ...]) -> None:
    array: Array = np.arange(1, 1 + int(np.prod(shape)), dtype=F).reshape(shape)
    found = per_channel(array, (2, 5))
    varies = len(shape) == 2 and shape[0] > 1
    assert (found is None) == (varies or len(shape) > 2)
    if found is not None:
        np.testing.assert_array_equal(np.broadcast_to(array, (2, 5)), np.broadcast_to(found, (2, 5)))
