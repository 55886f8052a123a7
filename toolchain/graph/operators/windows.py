"""Windows of convolutions and pools with everything written out, and Resize operators that only repeat pixels."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.nodes.rewrite import constant, integer, ints, known_shape, shape_of, text
from toolchain.graph.running.session import open_session, run_session
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError

Pair = tuple[int, ...]


def pads_of(node: ir.Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Pair:
    """(top, left, bottom, right) such that dividing without a rest gives the node's own output size; negative pads cannot be."""
    value = node.inputs[0]
    assert value is not None
    size, result = shape_of(value)[2:], shape_of(node.outputs[0])[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    begin = list(ints(node, "pads", (0, 0, 0, 0))[:2])
    mode = text(node, "auto_pad", "NOTSET")
    needed = [max((o - 1) * s + r - i, 0) for o, s, r, i in zip(result, strides, reach, size, strict=True)]
    if mode.startswith("SAME"):
        begin = _leading(needed, mode)
    elif mode == "VALID":
        begin = [0, 0]
    end = [max((o - 1) * s + r - i - b, 0) for o, s, r, i, b in zip(result, strides, reach, size, begin, strict=True)]
    return (*begin, *end)


def window_of(node: ir.Node, kernel: Sequence[int]) -> dict[str, Pair]:
    """The attributes kernel_shape, strides, pads and dilations of a pool."""
    strides, dilations = ints(node, "strides", (1, 1)), ints(node, "dilations", (1, 1))
    return {"kernel_shape": tuple(kernel), "strides": strides, "pads": pads_of(node, kernel, strides, dilations), "dilations": dilations}


def transposed_window_of(node: ir.Node, kernel: Sequence[int]) -> dict[str, Pair] | None:
    """The attributes strides, pads, dilations and output_padding of a transposed convolution; None where pads would be negative.

    Where the size of the result is given, by attribute output_shape or by automatic padding, the pads follow from it (ONNX, ConvTranspose).
    """
    value = node.inputs[0]
    assert value is not None
    size, result = shape_of(value)[2:], shape_of(node.outputs[0])[2:]
    strides, dilations, more = ints(node, "strides", (1, 1)), ints(node, "dilations", (1, 1)), ints(node, "output_padding", (0, 0))
    mode = text(node, "auto_pad", "NOTSET")
    pads = ints(node, "pads", (0, 0, 0, 0))
    if mode != "NOTSET" or "output_shape" in node.attributes:
        grown = [(i - 1) * s + (k - 1) * d + 1 + m for i, s, k, d, m in zip(size, strides, kernel, dilations, more, strict=True)]
        total = [a - b for a, b in zip(grown, result, strict=True)]
        begin = _leading(total, mode)
        pads = (*begin, *(a - b for a, b in zip(total, begin, strict=True)))
    return {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": more} if min(pads) >= 0 else None


def _leading(totals: Sequence[int], mode: str) -> list[int]:
    """The parts of paddings that stand before the picture: the smaller halves for SAME_UPPER, else the larger ones."""
    return [total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in totals]


def rounds_up(node: ir.Node) -> bool:
    """Whether the last window reaches past the padding that the node declares."""
    return bool(integer(node, "ceil_mode", 0))


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
