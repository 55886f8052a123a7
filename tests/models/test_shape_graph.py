"""A written-out network as ONNX: valid, complete, and with the attributes that the layers ask for."""

from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from tests.models.small import small
from toolchain.models.build import build_model, model_shape_graph
from toolchain.models.shape_graph import ShapeGraph

EVERYTHING = """
  - conv: {name: c, out: 8, kernel: [3, 2], stride: [2, 1], pad: [1, 0, 2, 1], dilation: [1, 2], groups: 2}
  - norm: {act: relu}
  - conv: {out: 8, norm: true, act: relu6}
  - conv: {out: 8, act: leaky, slope: 0.125}
  - maxpool: {kernel: 3, pad: 1, ceil: true}
  - avgpool: {kernel: 3, pad: 1, include_pad: true}
  - add: {of: [[], [relu], [leaky]], act: relu}
  - concat: {of: [[], [norm]]}
  - upsample: {factor: 2}
  - globalpool
  - flatten
  - dense: {out: 5, bias: false}
  - softmax
"""


@pytest.fixture(scope="module")
def everything() -> ShapeGraph:
    found = model_shape_graph(small(EVERYTHING))
    assert found is not None
    return found


def _node(bare: ShapeGraph, name: str) -> onnx.NodeProto:
    return next(node for node in bare.proto.graph.node if node.name == name)


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def test_every_kind_of_layer_is_valid_onnx(everything: ShapeGraph, tmp_path: Path) -> None:
    path = build_model(small(EVERYTHING), tmp_path)
    onnx.checker.check_model(path, full_check=True)
    assert {node.op_type for node in everything.proto.graph.node} >= {"Conv", "Gemm", "Resize", "Clip", "LeakyRelu", "Concat", "Add"}


def test_windows_keep_their_numbers(everything: ShapeGraph) -> None:
    found = _attributes(_node(everything, "c"))
    assert found == {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2}
    assert _attributes(_node(everything, "maxpool"))["ceil_mode"] == 1
    assert _attributes(_node(everything, "avgpool"))["count_include_pad"] == 1


def test_a_node_its_result_and_its_layer_have_one_name(everything: ShapeGraph) -> None:
    assert all(list(node.output) == [node.name] for node in everything.proto.graph.node)


def test_sums_of_three_are_two_sums_of_two(everything: ShapeGraph) -> None:
    last = _node(everything, "add")
    assert [*_node(everything, last.input[0]).input, last.input[1]] == ["avgpool", "relu", "leaky"]


def test_parameters_have_shapes_and_no_values(everything: ShapeGraph) -> None:
    assert everything.parameters["c.weight"] == (8, 2, 3, 2)
    assert everything.parameters["c.bias"] == (8,)
    assert everything.parameters["dense.weight"] == (5, 16)
    assert "dense.bias" not in everything.parameters
    assert "conv.bias" not in everything.parameters
    constants = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in everything.proto.graph.initializer}
    assert constants == {"conv.relu6.low": 0.0, "conv.relu6.high": 6.0, "upsample.scales": [1.0, 1.0, 2.0, 2.0]}
