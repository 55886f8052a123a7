"""What depends on no input is computed once; what is too large, random or handed out stays."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.passes.context import Context
from toolchain.passes.fold_constants import FoldConstants

LARGE = normal(0, 40, 40)
"""More than the import keeps inline, so that it does not fold what depends on it."""


def test_a_chain_of_large_constants(tmp_path: Path) -> None:
    nodes = [
        n("Transpose", ["k"], ["t"]),
        n("MatMul", ["k", "t"], ["p"]),
        n("Relu", ["p"], ["r"]),
        n("MatMul", ["x", "r"], ["a"]),
        n("Add", ["a", "t"], ["y"]),
    ]
    graph, x = imported(tmp_path, nodes, (2, 40, 40), {"k": LARGE}), {"x": normal(1, 2, 40, 40)}
    wanted = run(graph, x)["y"]
    assert len(graph.graph) == 5
    result = FoldConstants().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["MatMul", "Add"]
    assert len(result.graph.initializers) == 2
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


@pytest.mark.parametrize("max_bytes", [40 * 40 * 8 - 1, 40 * 40 * 8])
def test_results_that_are_too_large_are_left(max_bytes: int, tmp_path: Path) -> None:
    nodes = [n("Exp", ["k"], ["e"]), n("ReduceSum", ["e"], ["s"]), n("Add", ["x", "s"], ["y"])]
    result = FoldConstants(max_bytes=max_bytes).run(imported(tmp_path, nodes, (1, 1), {"k": LARGE}), Context())
    assert len(result.graph) == (3 if max_bytes % 8 else 1)


def test_random_numbers_and_outputs_stay(tmp_path: Path) -> None:
    nodes = [n("Dropout", ["k"], ["d"]), n("Exp", ["k"], ["e"]), n("Sum", ["x", "d", "e"], ["t"]), n("Split", ["t"], ["y", "z"], num_outputs=2)]
    result = FoldConstants().run(imported(tmp_path, nodes, (40, 40), {"k": LARGE}), Context())
    assert [node.op_type for node in result.graph] == ["Dropout", "Sum", "Split"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=3), st.sampled_from([None, F(2.5), np.int64(-3), np.bool_(True)]))
def test_fills(tmp_path_factory: pytest.TempPathFactory, shape: list[int], value: np.generic | None) -> None:
    given_ = {} if value is None else {"value": helper.make_tensor("v", helper.np_dtype_to_tensor_dtype(value.dtype), [1], [value])}
    fill = [n("ConstantOfShape", ["s"], ["f"], **given_), n("Cast", ["f"], ["c"], to=1), n("Flatten", ["c"], ["g"], axis=0)]
    nodes = [*fill, n("Gemm", ["g", "g"], ["p"], transB=1), n("Add", ["x", "p"], ["y"])]
    graph, x = imported(tmp_path_factory.mktemp("f"), nodes, (1, 1), {"s": np.array(shape)}), {"x": normal(0, 1, 1)}
    wanted = run(graph, x)["y"]
    np.testing.assert_array_equal(run(FoldConstants().run(graph, Context()), x)["y"], wanted)


def test_a_fill_beyond_the_bound_stays(tmp_path: Path) -> None:
    nodes = [n("ConstantOfShape", ["s"], ["f"]), n("ReduceMax", ["f"], ["m"]), n("Add", ["x", "m"], ["y"])]
    result = FoldConstants(max_bytes=1 << 22).run(imported(tmp_path, nodes, (1, 1), {"s": np.array([1025, 1024])}), Context())
    assert [node.op_type for node in result.graph] == ["ConstantOfShape", "ReduceMax", "Add"]
    kept = FoldConstants(max_bytes=1 << 23).run(imported(tmp_path, nodes, (1, 1), {"s": np.array([1025, 1024])}), Context())
    assert [node.op_type for node in kept.graph] == ["Add"]
