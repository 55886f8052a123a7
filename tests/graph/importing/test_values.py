"""Weights that are no numbers are told by place and reader; other constants may be infinite, as masks are."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported
from toolchain.spec.errors import UserError

n = helper.make_node


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2), st.integers(0, 3), st.sampled_from([np.nan, np.inf, -np.inf]), st.sampled_from(["MatMul", "Gemm"]))
def test_the_first_bad_weight(tmp_path_factory: pytest.TempPathFactory, row: int, column: int, bad: float, kind: str) -> None:
    w = np.ones((3, 4), F)
    w[row, column] = bad
    with pytest.raises(UserError) as caught:
        imported(tmp_path_factory.mktemp("v"), [n(kind, ["x", "w"], ["y"], "layer")], (2, 3), {"w": w})
    told = f"E0909 the constant 'w' holds {bad} at [{row}, {column}] and 0 more such values; read by node 'layer' ({kind})"
    assert told in str(caught.value)


def test_a_sum_that_overflows_is_no_defect(tmp_path: Path) -> None:
    imported(tmp_path, [n("MatMul", ["x", "w"], ["y"])], (2, 3), {"w": np.full((3, 4), 3e38, F)})


def test_masks_may_be_infinite(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Add", ["x", "mask"], ["a"]), n("Softmax", ["a"], ["y"])], (2, 3), {"mask": np.array([0, -np.inf, 0], F)})
    assert len(graph.graph) == 2
