"""A whole integer network: in the numpy reference, and in ONNX Runtime with every stored tensor shown."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.integers.calls import run_call
from toolchain.graph.integers.functions import is_integer
from toolchain.graph.nodes.rewrite import constant
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import open_session, run_session
from toolchain.operations.library import Kinds, builtin_kinds
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.model.quantisation import Numerics

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


STORED = (ir.DataType.INT8, ir.DataType.UINT8)


def integer_tensors(model: ir.Model) -> list[ir.Value]:
    """The stored results of integer calls, in the order of the graph."""
    return [node.outputs[0] for node in model.graph if is_integer(node) and node.outputs[0].dtype in STORED]


def run_oracle(model: ir.Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """ONNX Runtime's results: outputs and every stored tensor, by name. Raises UserError E0910 and E0914."""
    check_oracle()
    return run_session(open_model(model, integer_tensors(model)), inputs)


def run_reference(model: ir.Model, inputs: Mapping[str, Array], numerics: Numerics, kinds: Kinds | None = None) -> dict[str, Array]:
    """All integer tensors by the numpy reference; those that depend on a host operator are left out."""
    known: dict[ir.Value, Array] = {value: inputs[value.name or ""] for value in model.graph.inputs}
    for node in model.graph:
        operands = [known.get(value) if (array := constant(value)) is None else array for value in node.inputs if value is not None]
        given = [operand for operand in operands if operand is not None]
        if is_integer(node) and len(given) == len(operands):
            known[node.outputs[0]] = run_call(node, given, numerics, kinds or builtin_kinds())
    return {value.name or "": array for value, array in known.items() if not value.is_graph_input()}
