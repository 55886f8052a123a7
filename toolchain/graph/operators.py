"""Facts of ONNX's operators: default attributes, windows with all sizes written out, scale and shift of each channel, repeated pixels; and bounds on
the values of a tensor, as far as operators alone tell, which prove that a clip has no effect."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.rewrite import captured, constant, integer, ints, is_float, is_operator, known_shape, real, shape_of, text
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


MOVES = ("MaxPool", "Concat", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Gather", "Identity", "Dropout", "Expand")
"""Operators whose results are some of the values of their data operands."""
DATA_FIRST = ("Reshape", "Squeeze", "Unsqueeze", "Slice", "Split", "Gather", "Dropout", "Expand")
"""Operators among them whose further operands are no data."""


class Interval(NamedTuple):
    """From low to high, both included; infinite where no limit is known."""

    low: float
    high: float

    def holds(self, other: "Interval") -> bool:
        """Whether all of another interval lies inside."""
        return self.low <= other.low and other.high <= self.high


ANY = Interval(-math.inf, math.inf)
BOUNDED: Mapping[str, Interval] = {"Sigmoid": Interval(0, 1), "HardSigmoid": Interval(0, 1), "Softmax": Interval(0, 1), "Tanh": Interval(-1, 1)}


def interval_of(value: ir.Value | None, depth: int = 32) -> Interval:
    """Bounds on the values of a float tensor. depth: how many operators back the proof may go."""
    if value is None or depth == 0:
        return ANY
    array = constant(value)
    if array is not None:
        return Interval(float(array.min()), float(array.max())) if array.size and array.dtype.kind == "f" else ANY
    node = value.producer()
    if node is None or captured(node):
        return ANY
    if is_operator(node, *BOUNDED):
        return BOUNDED[node.op_type]
    if is_operator(node, "Relu"):
        return Interval(0.0, max(interval_of(node.inputs[0], depth - 1).high, 0.0))
    if is_operator(node, "Clip"):
        return _clipped(node, depth)
    if is_operator(node, "DequantizeLinear"):
        return stored_interval(node)
    if is_operator(node, "AveragePool", "GlobalAveragePool", "Pad", "ReduceMean", "ReduceMax", *MOVES):
        return _united(node, depth)
    return ANY


def _clipped(node: ir.Node, depth: int) -> Interval:
    if any(value is not None and constant(value) is None for value in node.inputs[1:]):
        return ANY  # a limit that is computed may be anything, and moves values to itself
    inside = interval_of(node.inputs[0], depth - 1)
    low, high = (limit(node, index) for index in (1, 2))
    return Interval(min(max(inside.low, low), high), max(min(inside.high, high), low))


def limit(node: ir.Node, index: int) -> float:
    """A limit of a Clip, 1 for the lower and 2 for the upper one; infinite where it is none or not constant."""
    array = constant(node.inputs[index]) if len(node.inputs) > index else None
    return (-math.inf if index == 1 else math.inf) if array is None else float(array.reshape(-1)[0])


def limits_of(node: ir.Node) -> Interval | None:
    """The limits of a ReLU, or of a Clip whose limits are constant; None for any other node."""
    if is_operator(node, "Relu"):
        return Interval(0.0, math.inf)
    if is_operator(node, "Clip") and all(value is None or constant(value) is not None for value in node.inputs[1:]):
        return Interval(limit(node, 1), limit(node, 2))
    return None


def _united(node: ir.Node, depth: int) -> Interval:
    """Over the data operands; averages and padding with zeros add nothing outside but zero."""
    first_only = is_operator(node, *DATA_FIRST, "Pad", "ReduceMean", "ReduceMax")
    data = node.inputs[:1] if first_only else node.inputs
    found = [interval_of(value, depth - 1) for value in data]
    if is_operator(node, "Pad"):
        fill = pad_fill(node)
        found.append(ANY if fill is None else Interval(fill, fill))
    elif is_operator(node, "AveragePool"):
        found.append(Interval(0.0, 0.0))
    return Interval(min(each.low for each in found), max(each.high for each in found))


def pad_fill(node: ir.Node) -> float | None:
    """The value that a Pad writes, zero where it has none of its own; None where it is computed."""
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return 0.0
    value = constant(node.inputs[2])
    return None if value is None else float(value.reshape(-1)[0])


def stored_interval(node: ir.Node) -> Interval:
    """Bounds on the values that a QuantizeLinear or DequantizeLinear with constant parameters can represent: zero point and type cut."""
    scale = constant(node.inputs[1])
    zero = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    kind = stored_type(node)
    if scale is None or kind is None or (len(node.inputs) > 2 and node.inputs[2] is not None and zero is None):
        return ANY
    middle = 0 if zero is None else zero.astype(np.int64)
    ends = [np.float32(end - middle) * scale.astype(np.float32) for end in kind]  # rounded as DequantizeLinear rounds
    return Interval(float(ends[0].min()), float(ends[1].max()))


_WHOLE: Mapping[ir.DataType, tuple[int, int]] = {
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-(1 << 15), (1 << 15) - 1),
    ir.DataType.UINT16: (0, (1 << 16) - 1),
    ir.DataType.INT4: (-8, 7),
    ir.DataType.UINT4: (0, 15),
}


def stored_type(node: ir.Node) -> tuple[int, int] | None:
    """The least and the largest stored integer; None for floating formats."""
    stored = node.outputs[0] if is_operator(node, "QuantizeLinear") else node.inputs[0]
    return None if stored is None or stored.dtype is None else _WHOLE.get(stored.dtype)
