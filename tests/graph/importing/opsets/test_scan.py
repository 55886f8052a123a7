"""Scan over a batch of sequences."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.importing.opsets.oracle import build, check, n, normal, refusal


def body() -> object:
    """Adds up the elements, squashed by a softmax of old meaning; also gives each sum times a tensor from outside."""
    nodes = [n("Softmax", ["e"], ["p"], "p", axis=0), n("Add", ["s", "p"], ["t"], "t"), n("Mul", ["t", "outside"], ["o"], "o")]
    entries = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "se"]
    return helper.make_graph(nodes, "body", entries, [helper.make_empty_tensor_value_info(name) for name in "to"])


@pytest.mark.parametrize("directions", [None, [0], [1]])
def test_every_sequence_of_the_batch(directions: list[int] | None) -> None:
    x = {"start": normal(1, 4, 2, 3), "x": normal(2, 4, 5, 2, 3), "outside": normal(3, 2, 3)}
    attributes = {} if directions is None else {"directions": directions}
    node = n("Scan", ["", "start", "x"], ["final", "each"], "scan", body=body(), num_scan_inputs=1, **attributes)
    result = check(build([node], x, 8), x, exact=False)
    assert [entry.name for entry in result.graph.node] == ["scan"]


def test_lengths_are_refused() -> None:
    x = {"start": normal(1, 4, 2, 3), "x": normal(2, 4, 5, 2, 3), "outside": normal(3, 2, 3)}
    node = n("Scan", ["lengths", "start", "x"], ["final", "each"], "scan", body=body(), num_scan_inputs=1)
    assert "sequences of different lengths" in refusal(build([node], x, 8, {"lengths": np.array([5, 5, 2, 1])}))
