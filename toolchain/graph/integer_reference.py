"""The integer operations once more, in numpy's whole numbers: shares no code and no arithmetic with the ONNX functions.

Every array is int64 inside; products run through float64 matrix products, exact below 2**53.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.graph.numerics import Numerics, Rounding

Ints = np.typing.NDArray[np.int64]
Attributes = Mapping[str, Any]


def evaluate(
    kind: str, activation: str, attributes: Attributes, operands: Sequence[np.typing.NDArray[Any]], numerics: Numerics
) -> np.typing.NDArray[np.int8]:
    """The int8 result of one integer operation; operands and attributes as in the ONNX call."""
    if kind in _COPIES:
        return _COPIES[kind](attributes, operands).astype(np.int8)
    total, divisor = accumulate(kind, attributes, [np.asarray(operand).astype(np.int64) for operand in operands])
    shift = _shifts(divisor) if divisor is not None else np.int64(attributes["shift"])
    rounded = _activated(total, shift, activation == "leaky", attributes, numerics)
    return np.clip(rounded, attributes["low"], attributes["high"]).astype(np.int8)


def accumulate(kind: str, attributes: Attributes, operands: list[Ints]) -> tuple[Ints, Ints | None]:
    """The exact int64 sum that is requantised, and the divisor of each channel where there is one."""
    x = operands[0]
    match kind:
        case "conv2d" | "dense":
            column = (1, -1, 1, 1) if kind == "conv2d" else (1, -1)
            products = convolve(x, operands[1], attributes) if kind == "conv2d" else _product(x, operands[1].T)
            total = products + (operands[2].reshape(column) << attributes["bias_shift"])
            return (total * operands[3].reshape(column), operands[4].reshape(column)) if len(operands) > 3 else (total, None)
        case "add":
            return x * attributes["multiply_x"] + operands[1] * attributes["multiply_y"], None
        case "average_pool":
            windows = _windows(x, attributes["kernel_shape"], attributes["strides"], attributes["pads"], (1, 1), 0)
            return windows.sum((-2, -1)) * attributes["multiply"], None
        case _:
            raise ValueError(kind)


def _product(left: Ints, right: Ints) -> Ints:
    return (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)


def convolve(x: Ints, w: Ints, attributes: Attributes) -> Ints:
    """[n, o, h, w] of [n, c, h, w] and [o, c/group, kh, kw]; zeros around."""
    group, kernel = attributes["group"], w.shape[2:]
    windows = _windows(x, kernel, attributes["strides"], attributes["pads"], attributes["dilations"], 0)
    n, c, height, width = windows.shape[:4]
    columns = windows.reshape(n, group, c // group, height * width, -1).transpose(0, 1, 3, 2, 4).reshape(n, group, height * width, -1)
    weights = w.reshape(group, w.shape[0] // group, -1).transpose(0, 2, 1)
    return _product(columns, weights[None]).transpose(0, 1, 3, 2).reshape(n, w.shape[0], height, width)


def _windows(x: Ints, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], around: int) -> Ints:
    """[n, c, h, w, kh, kw]: what each output position sees."""
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=around)
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def _shifts(divisor: Ints) -> Ints:
    return np.array([int(value).bit_length() - 1 for value in divisor.ravel()], np.int64).reshape(divisor.shape)


def _activated(total: Ints, shift: np.int64 | Ints, leaky: bool, attributes: Attributes, numerics: Numerics) -> Ints:
    if not leaky:
        return rounded_shift(total, shift, numerics.rounding)
    slope, more = attributes["slope"], attributes["slope_shift"]
    if numerics.order == "activation_first":
        return np.where(total < 0, rounded_shift(total * slope, shift + more, numerics.rounding), rounded_shift(total, shift, numerics.rounding))
    whole = rounded_shift(total, shift, numerics.rounding)
    return np.where(whole < 0, rounded_shift(whole * slope, np.int64(more), numerics.rounding), whole)


def rounded_shift(value: Ints, shift: np.int64 | Ints, rounding: Rounding) -> Ints:
    """value / 2**shift as a whole number, from quotient and remainder; shift from 0 to 62."""
    quotient, power = value >> shift, np.int64(1) << np.asarray(shift, np.int64)
    remainder = value - (quotient << shift)
    twice = remainder - (power - remainder)
    match rounding:
        case "floor":
            up = np.zeros_like(value, bool)
        case "half_up":
            up = twice >= 0
        case "half_even":
            up = (twice > 0) | ((twice == 0) & (quotient & 1 == 1))
        case "half_away":
            up = (twice > 0) | ((twice == 0) & (value >= 0))
    return quotient + (up & (power > 1))


def _max_pool(attributes: Attributes, operands: Sequence[np.typing.NDArray[Any]]) -> Ints:
    x = operands[0].astype(np.int64)
    return _windows(x, attributes["kernel_shape"], attributes["strides"], attributes["pads"], (1, 1), -(2**40)).max((-2, -1))


def _pad(attributes: Attributes, operands: Sequence[np.typing.NDArray[Any]]) -> Ints:
    pads, rank = attributes["pads"], operands[0].ndim
    return np.pad(operands[0], [(pads[axis], pads[axis + rank]) for axis in range(rank)])


def _upsample(attributes: Attributes, operands: Sequence[np.typing.NDArray[Any]]) -> Ints:
    height, width = attributes["factors"]
    return operands[0].repeat(height, 2).repeat(width, 3)


def _shuffle(attributes: Attributes, operands: Sequence[np.typing.NDArray[Any]]) -> Ints:
    """Channel i of group g becomes channel i * group + g."""
    images, channels, height, width = operands[0].shape
    return operands[0].reshape(images, attributes["group"], -1, height, width).swapaxes(1, 2).reshape(images, channels, height, width)


_COPIES: dict[str, Callable[[Attributes, Sequence[np.typing.NDArray[Any]]], Ints]] = {
    "max_pool": _max_pool,
    "pad": _pad,
    "upsample": _upsample,
    "shuffle": _shuffle,
    "flatten": lambda _, operands: operands[0].reshape(len(operands[0]), -1),
    "concat": lambda attributes, operands: np.concatenate(list(operands), attributes["axis"]),
}


def quantize(x: np.typing.NDArray[np.float32], scale: float, low: int, high: int, rounding: Rounding) -> np.typing.NDArray[np.int8]:
    """float32 to stored integers; the quotient is rounded once to float64, as the ONNX function does."""
    exact = x.astype(np.float64) / np.float64(np.float32(scale))
    down = np.floor(exact)
    rest = exact - down
    match rounding:
        case "floor":
            whole = down
        case "half_up":
            whole = np.where(rest >= 0.5, down + 1, down)
        case "half_even":
            whole = np.where((rest > 0.5) | ((rest == 0.5) & (down % 2 == 1)), down + 1, down)
        case "half_away":
            whole = np.where((rest > 0.5) | ((rest == 0.5) & (exact >= 0)), down + 1, down)
    return np.clip(whole, low, high).astype(np.int8)
