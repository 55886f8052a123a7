"""Whether a Resize only repeats pixels: ONNX Runtime is asked with a picture whose pixels are their own numbers, none of them zero."""

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.nodes.rewrite import Array, constant, known_shape
from toolchain.graph.running.session import open_session, run_session
from toolchain.spec.errors import UserError

MAX_PIXELS = 1 << 24
"""Whole numbers of a float32."""


def repeats(node: ir.Node) -> bool:
    """Whether every pixel of a rank-4 Resize is repeated in blocks of one size, exactly. False where its factors are not constant."""
    before, after = known_shape(node.inputs[0]), known_shape(node.outputs[0])
    if before is None or after is None or len(before) != 4 or before[:2] != after[:2] or after[2] % before[2] or after[3] % before[3]:
        return False
    if before[2] * before[3] > MAX_PIXELS:
        return False
    x = np.arange(1, before[2] * before[3] + 1, dtype=np.float32).reshape(1, 1, *before[2:])
    found = _resized(node, x)
    return found is not None and np.array_equal(found, x.repeat(after[2] // before[2], 2).repeat(after[3] // before[3], 3))


def _resized(node: ir.Node, picture: Array) -> Array | None:
    """One channel of one image through the operator; None where its other operands are not constant."""
    operands = [constant(value) for value in node.inputs[1:]]
    if any(array is None and value is not None for array, value in zip(operands, node.inputs[1:], strict=True)):
        return None
    proto = ir.serde.serialize_node(node)
    proto.input[:] = ["x", *("" if array is None else f"o{number}" for number, array in enumerate(operands))]
    proto.output[:] = ["y"]
    held = [numpy_helper.from_array(_one_channel(array, number), f"o{number}") for number, array in enumerate(operands) if array is not None]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, picture.shape)]
    graph = helper.make_graph([proto], "resize", inputs, [onnx.ValueInfoProto(name="y")], held)
    version = node.graph.opset_imports.get("", OPSET) if node.graph is not None else OPSET
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=IR_VERSION)
    try:
        return run_session(open_session(model.SerializeToString(), optimise=False), {"x": picture})["y"]
    except UserError:
        return None


def _one_channel(array: Array, number: int) -> Array:
    """Sizes (the third further operand) of one image and one channel."""
    return np.array([1, 1, *array[2:]], array.dtype) if number == 2 and array.size == 4 else array
