"""Operators without parameters on a made-up picture, in operations that IEEE 754 rounds correctly."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from toolchain.models.exact_ops import mean
from toolchain.models.geometry import Floats, attribute, taps_of
from toolchain.models.operators import Shape

Rule = Callable[[onnx.NodeProto, Sequence[Floats], Shape], Floats]


def apply(node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    """The node's result of `shape` but for the batch. Raises KeyError for an operator that no model here uses.

    Local response norm, dropout and softmax let everything pass: they hardly matter to what comes later.
    """
    return _RULES[node.op_type](node, inputs, shape)


def _passed(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return inputs[0]


def _relu(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.maximum(inputs[0], np.float32(0))


def _clip(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.clip(inputs[0], np.float32(0), np.float32(6))


def _leaky(node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.maximum(inputs[0], inputs[0] * np.float32(attribute(node, "alpha", 0.01)))


def _maxpool(node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    views = taps_of(node, attribute(node, "kernel_shape", ()), shape).views(inputs[0], -np.inf)
    result = next(views).copy()
    for view in views:
        np.maximum(result, view, out=result)
    return result


def _avgpool(node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    """Divides by the whole window, also at the edge."""
    kernel = attribute(node, "kernel_shape", ())
    views = taps_of(node, kernel, shape).views(inputs[0], 0.0)
    result = next(views).copy()
    for view in views:
        result += view
    return result / np.float32(kernel[0] * kernel[1])


def _globalpool(_node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    x = inputs[0]
    return mean(x, (2, 3)).astype(np.float32).reshape(len(x), *shape[1:])


def _add(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    total = inputs[0]
    for other in inputs[1:]:
        total = total + other
    return total


def _concat(_node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.concatenate(inputs, axis=1)


def _reshape(_node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    return inputs[0].reshape(len(inputs[0]), *shape[1:])


def _transpose(node: onnx.NodeProto, inputs: Sequence[Floats], _shape: Shape) -> Floats:
    return np.ascontiguousarray(inputs[0].transpose(attribute(node, "perm", ())))


def _resize(_node: onnx.NodeProto, inputs: Sequence[Floats], shape: Shape) -> Floats:
    height, width = inputs[0].shape[2:]
    return inputs[0].repeat(shape[2] // height, axis=2).repeat(shape[3] // width, axis=3)


_RULES: Mapping[str, Rule] = {
    "Relu": _relu,
    "Clip": _clip,
    "LeakyRelu": _leaky,
    "MaxPool": _maxpool,
    "AveragePool": _avgpool,
    "GlobalAveragePool": _globalpool,
    "Add": _add,
    "Sum": _add,
    "Concat": _concat,
    "Flatten": _reshape,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Resize": _resize,
    "LRN": _passed,
    "Dropout": _passed,
    "Softmax": _passed,
}
