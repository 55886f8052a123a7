"""Made-up parameters of sequences' operators.

Norms keep the rows of such a network at a deviation of 1, so weights follow from the number of their products alone and no sample goes through it.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from toolchain.models.exact_ops import BELL_SQUARE, bell, dyadic, key_of, rounded, signed_bytes
from toolchain.models.operators import Shape
from toolchain.models.sequence_graph import PROJECTIONS, RESULT
from toolchain.spec.arrays import Floats

Parameter = tuple[str, Floats]
UNEVEN = {f".{PROJECTIONS[0]}.weight": 2.0, f".{RESULT}.weight": 0.5}
"""Deviations of attention's weights, by the end of their names: uneven shares as in trained networks, and a smaller part that rows have in common.
With 1 for both, all rows are nearly the same after a few layers."""


def sequence_parameters(node: onnx.NodeProto, parameters: Mapping[str, Shape], seed: int) -> Iterator[Parameter]:
    """Names and values of a node's own parameters: weights that keep a deviation of 1, tables of deviation 1, scales around 1, biases around 0."""
    for number, name in enumerate(node.input):
        if (shape := parameters.get(name)) is None:
            continue
        match node.op_type, number:
            case "MatMul" | "Gemm", 1:
                axis = 0 if node.op_type == "MatMul" else 1
                deviation = next((value for end, value in UNEVEN.items() if name.endswith(end)), 1.0)
                yield name, _bells(seed, name, shape, deviation / math.sqrt(shape[axis]), axis)
            case "Conv", 1:
                yield name, _bells(seed, name, shape, 1 / math.sqrt(math.prod(shape[1:])))
            case "LayerNormalization" | "BatchNormalization", 1 | 4:
                yield name, _around(seed, name, shape, 1, 0.25)
            case "LayerNormalization" | "BatchNormalization" | "Gemm" | "Conv", _:
                yield name, _around(seed, name, shape, 0, 0.0625)
            case "Add", _ if len(shape) == 1:
                yield name, _around(seed, name, shape, 0, 0.0625)
            case _:
                yield name, _bells(seed, name, shape, 1.0)


def _bells(seed: int, name: str, shape: Shape, deviation: float, axis: int | None = None) -> Floats:
    """Small whole numbers times one scale; along an axis their sum is about 0, so that a mean which all products share adds nothing."""
    whole = bell(key_of(seed, name), math.prod(shape)).reshape(shape)
    if axis is not None:
        whole = whole - (whole.sum(axis, np.int64, keepdims=True) // shape[axis]).astype(np.int16)
    return np.multiply(whole, np.float32(dyadic(deviation / math.sqrt(BELL_SQUARE))), dtype=np.float32)


def _around(seed: int, name: str, shape: Shape, centre: float, reach: float) -> Floats:
    return rounded(centre + signed_bytes(key_of(seed, name), math.prod(shape)).astype(np.float64) * (reach / 128)).reshape(shape)
