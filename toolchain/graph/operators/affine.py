"""Operators that scale and shift each channel by constants: batch norm, and products and sums with a vector."""

from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.nodes.rewrite import constant, integer, is_float, is_operator, known_shape, real

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


def per_channel(array: np.typing.NDArray[Any], shape: tuple[int, ...], channels: int = 1) -> Vector | None:
    """A constant that is broadcast to `shape`, as a vector over the axis of the channels; None where it varies over another axis."""
    aligned = array.reshape((1,) * (len(shape) - array.ndim) + array.shape) if array.ndim <= len(shape) else None
    if aligned is None or any(size not in ((1, shape[channels]) if axis == channels else (1,)) for axis, size in enumerate(aligned.shape)):
        return None
    return np.broadcast_to(aligned.reshape(-1), (shape[channels],)).astype(np.float64)
