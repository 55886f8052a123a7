"""A Range of tensors with one element is imported, and runs as ONNX Runtime runs it where the file hides their shape."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from toolchain.graph.importing.load import load_graph
from toolchain.graph.importing.scalars import write_scalars
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import run_session


def ranged(shape: list[int]) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("start", "limit", "delta")]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, [None])
    graph = helper.make_graph([helper.make_node("Range", ["start", "limit", "delta"], ["y"], "range")], "g", ends, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("shape", [[], [1]])
def test_operands_with_one_element(shape: list[int], tmp_path: Path) -> None:
    onnx.save(ranged(shape), tmp_path / "range.onnx")
    given = {name: np.full(shape, value, np.int64) for name, value in (("start", 2), ("limit", 9), ("delta", 3))}
    found = run_session(open_model(load_graph(tmp_path / "range.onnx")), given)
    assert found["y"].tolist() == [2, 5, 8]


def test_scalars_stay_as_they_are() -> None:
    graph = ranged([]).graph
    assert not write_scalars(graph, {"start": (), "limit": (), "delta": ()})
    assert len(graph.node) == 1


def test_only_what_has_one_axis_is_changed() -> None:
    graph = ranged([]).graph
    assert write_scalars(graph, {"start": (1,), "limit": (), "delta": None})
    assert [node.op_type for node in graph.node] == ["Squeeze", "Range"]
    assert list(graph.node[1].input) == [graph.node[0].output[0], "limit", "delta"]
