"""Facts of ONNX's operators: default attributes, windows with all sizes written out, scale and shift of each channel, repeated pixels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.rewrite import constant, integer, ints, is_float, is_operator, known_shape, real, shape_of, text
from toolchain.graph.session import open_session, run_session
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError


def known_operators() -> list[str]:
    """The names of all operators, sorted."""
    return sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def attribute_default(operator: str, name: str) -> Any:
    """The value of an attribute that a node leaves out, texts as str; None where ONNX has none."""
    known = onnx.defs.get_schema(operator).attributes if onnx.defs.has(operator) else {}
    found = known[name].default_value if name in known else None
    value: Any = helper.get_attribute_value(found) if found is not None and found.type else None
    return value.decode() if isinstance(value, bytes) else value


Vector = np.typing.NDArray[np.float64]


def affine_of(node: ir.Node) -> tuple[ir.Value, Vector, Vector] | None:
    """The input x and float64 vectors (a, b) [channels] such that the node is a[c] * x[:, c] + b[c]; None for other nodes."""
    if is_operator(node, "BatchNormalization"):
        return _batch_norm(node)
    if not is_operator(node, "Mul", "Add", "Sub", "Div"):
        return None
    left, right = node.inputs
    commutes = node.op_type in ("Mul", "Add")
    value, other = (right, left) if constant(left) is not None and commutes else (left, right)
    array = constant(other)
    shape = known_shape(value)
    if value is None or array is None or value.is_initializer() or shape is None or len(shape) < 2 or not is_float(value):
        return None
    vector = per_channel(array, shape)
    if vector is None or known_shape(node.outputs[0]) != shape:
        return None
    one, zero = np.ones_like(vector), np.zeros_like(vector)
    match node.op_type:
        case "Mul":
            return value, vector, zero
        case "Div":
            return (value, one / vector, zero) if vector.all() else None
        case "Add":
            return value, one, vector
        case _:
            return value, one, -vector


def _batch_norm(node: ir.Node) -> tuple[ir.Value, Vector, Vector] | None:
    found = [constant(value) for value in node.inputs[1:5]]
    value = node.inputs[0]
    if value is None or any(array is None for array in found) or integer(node, "training_mode", 0) or known_shape(value) is None:
        return None
    scale, bias, mean, variance = (np.asarray(array, np.float64) for array in found)
    with np.errstate(invalid="ignore", divide="ignore"):  # a variance that is none: calibration tells
        a = scale / np.sqrt(variance + real(node, "epsilon", 1e-5))
        return value, a, bias - mean * a


def per_channel(array: Array, shape: tuple[int, ...], channels: int = 1) -> Vector | None:
    """A constant that is broadcast to `shape`, as a vector over the axis of the channels; None where it varies over another axis."""
    aligned = array.reshape((1,) * (len(shape) - array.ndim) + array.shape) if array.ndim <= len(shape) else None
    if aligned is None or any(size not in ((1, shape[channels]) if axis == channels else (1,)) for axis, size in enumerate(aligned.shape)):
        return None
    return np.broadcast_to(aligned.reshape(-1), (shape[channels],)).astype(np.float64)


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
