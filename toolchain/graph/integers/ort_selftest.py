"""Asks ONNX Runtime, once a process, for the products that some processors get wrong."""

from functools import cache

import numpy as np
import onnx
from onnx import helper

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.running.session import open_session, run_session
from toolchain.spec.errors import fail

LENGTH = 4608
"""512 channels of 3x3, the longest sum of the usual networks."""


@cache
def check_oracle() -> None:
    """Raises UserError E0914 when sums of LENGTH products of extremes come out wrong: without VNNI, pairs of products can saturate at 16 bits."""
    values = np.array([-128, 127, -127, 126], np.int8)
    x = np.repeat(values, LENGTH).reshape(4, LENGTH)
    w = np.concatenate([x, np.tile(values, LENGTH).reshape(4, LENGTH)])
    int8, int32 = onnx.TensorProto.INT8, onnx.TensorProto.INT32
    inputs = [helper.make_tensor_value_info("x", int8, x.shape), helper.make_tensor_value_info("w", int8, (LENGTH, 8))]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "selftest", inputs, [helper.make_tensor_value_info("y", int32, (4, 8))]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    found = run_session(open_session(proto.SerializeToString()), {"x": x, "w": np.ascontiguousarray(w.T)})["y"]
    convolved = _convolved(x, w)
    wanted = x.astype(np.int64) @ w.T.astype(np.int64)
    if not (found == wanted).all() or not (convolved == wanted).all():
        raise fail("E0914", "ONNX Runtime's integer products are not exact on this processor", hint="use a newer onnxruntime or another machine")


def _convolved(x: np.typing.NDArray[np.int8], w: np.typing.NDArray[np.int8]) -> np.typing.NDArray[np.int32]:
    """Compute the products as a 3x3 convolution, which takes another path through ONNX Runtime."""
    int8, int32 = onnx.TensorProto.INT8, onnx.TensorProto.INT32
    images, weights = x.reshape(4, -1, 3, 3), w.reshape(8, -1, 3, 3)
    inputs = [helper.make_tensor_value_info("x", int8, images.shape), helper.make_tensor_value_info("w", int8, weights.shape)]
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w"], ["y"])], "selftest", inputs, [helper.make_tensor_value_info("y", int32, (4, 8, 1, 1))]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return run_session(open_session(proto.SerializeToString()), {"x": images, "w": weights})["y"].reshape(4, 8)
