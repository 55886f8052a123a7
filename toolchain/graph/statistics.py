"""Sums over the inputs of a convolution or dense layer, in whole numbers: of each tap, and of the products of every two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.graph.calls import Call

Reals = np.typing.NDArray[np.float64]
Array = np.typing.NDArray[Any]
MAX_ROWS = 1 << 14
"""Output positions whose products are summed; of more, every n-th."""
CHUNK = 1024
"""Products of int8 whose sum a float32 holds exactly."""


@dataclass(frozen=True)
class Moments:
    """means: [groups, k] of every tap over all output positions. products: [groups, k, k], summed over `rows` of them; whole numbers.

    The products keep the means in: an error that a constant input makes would vary with the brightness of a picture, and no bias takes it out.
    """

    means: Reals
    products: Reals
    rows: int


def moments_of(call: Call, inputs: Sequence[Array], weights: tuple[int, ...]) -> Moments:
    """inputs: int8, one array a sample. weights: the shape of the layer's weights."""
    group, size = groups_of(call), int(np.prod(weights[1:]))
    total, rows, sums, products = 0, 0, np.zeros((group, size)), np.zeros((group, size, size))
    step = step_of(call, inputs, weights)
    for array in inputs:
        columns = columns_of(call, array, weights)
        sums += columns.sum(1, dtype=np.float64)
        some = columns[:, (-total) % step :: step]
        total, rows = total + columns.shape[1], rows + some.shape[1]
        for first in range(0, some.shape[1], CHUNK):
            part = some[:, first : first + CHUNK].astype(np.float32)
            products += np.matmul(part.transpose(0, 2, 1), part)
    return Moments(sums / max(total, 1), products, rows)


def groups_of(call: Call) -> int:
    """Groups of channels of a convolution; a dense layer has one."""
    return int(call.attributes.get("group", 1)) if call.kind == "conv2d" else 1


def step_of(call: Call, inputs: Sequence[Array], weights: tuple[int, ...]) -> int:
    """Of how many output positions one is looked at, so that there are at most MAX_ROWS."""
    return -(-sum(_positions(call, array, weights) for array in inputs) // MAX_ROWS)


def _positions(call: Call, x: Array, weights: tuple[int, ...]) -> int:
    return len(x) if call.kind == "dense" else int(_views(call, x, weights).shape[0] * np.prod(_views(call, x, weights).shape[2:4]))


def columns_of(call: Call, x: Array, weights: tuple[int, ...]) -> Array:
    """[groups, positions, k]: the inputs that each row of the weights meets at each output position."""
    if call.kind == "dense":
        return x[None]
    views = _views(call, x, weights)
    n, channels, height, width = views.shape[:4]
    group = groups_of(call)
    split = views.reshape(n, group, channels // group, height, width, -1)
    return split.transpose(1, 0, 3, 4, 2, 5).reshape(group, n * height * width, -1)


def _views(call: Call, x: Array, weights: tuple[int, ...]) -> Array:
    """[n, c, h, w, kh, kw] of a picture with its padding."""
    pads, strides, dilations = (call.attributes[name] for name in ("pads", "strides", "dilations"))
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    reach = tuple((size - 1) * step + 1 for size, step in zip(weights[2:], dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
