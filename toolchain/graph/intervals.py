"""Bounds on the values of a tensor, as far as operators alone tell: proof that a clip has no effect."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import captured, constant, is_operator

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
