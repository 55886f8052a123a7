"""Every operator without parameters against ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from toolchain.models import probe_ops
from toolchain.models.images import seeded_samples

X = seeded_samples("x", (1, 6, 9, 8), 2, "test")


def _run(node: onnx.NodeProto, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray]) -> np.ndarray:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, 1, value.shape) for name, value in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]


@pytest.mark.parametrize(
    ("kind", "attributes", "constants"),
    [
        ("Relu", {}, {}),
        ("Clip", {}, {"low": np.float32(0), "high": np.float32(6)}),
        ("LeakyRelu", {"alpha": 0.125}, {}),
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]}, {}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, {}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, {}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}, {}),
        ("GlobalAveragePool", {}, {}),
        ("Flatten", {}, {}),
        ("Reshape", {}, {"shape": np.array([2, 2, 3, 9, 8])}),
        ("Transpose", {"perm": [0, 2, 1, 3]}, {}),
        (
            "Resize",
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            {"scales": np.float32([1, 1, 2, 3])},
        ),
    ],
)
def test_operators_do_what_onnx_runtime_does(kind: str, attributes: dict[str, Any], constants: dict[str, np.ndarray]) -> None:
    names = ["x", "", *constants] if kind == "Resize" else ["x", *constants]
    node = helper.make_node(kind, names, ["y"], **attributes)
    expected = _run(node, {"x": X}, constants)
    assert probe_ops.apply(node, [X], expected.shape) == pytest.approx(expected, abs=2**-12)


@pytest.mark.parametrize(("kind", "attributes"), [("Sum", {}), ("Concat", {"axis": 1})])
def test_joins_do_what_onnx_runtime_does(kind: str, attributes: dict[str, Any]) -> None:
    others = {name: seeded_samples(name, X.shape, 2, "test") for name in ("x", "a", "b")}
    node = helper.make_node(kind, list(others), ["y"], **attributes)
    expected = _run(node, others, {})
    assert (probe_ops.apply(node, list(others.values()), expected.shape) == expected).all()
