"""From exact sums to stored integers: y = clip(round(activation(sum * multiplier / 2**shift)), low, high), in whole numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from toolchain.spec.model.quantisation import Numerics, Rounding

Ints = np.typing.NDArray[np.int64]


def requantised(total: Ints, shift: np.int64 | Ints, leaky: bool, ends: Mapping[str, int], numerics: Numerics) -> np.typing.NDArray[np.int8]:
    """ends: low, high, and of a leaky activation slope and slope_shift. shift: one, or one for each element."""
    rounded = _activated(total, shift, leaky, ends, numerics)
    return np.clip(rounded, ends["low"], ends["high"]).astype(np.int8)


def _activated(total: Ints, shift: np.int64 | Ints, leaky: bool, ends: Mapping[str, int], numerics: Numerics) -> Ints:
    if not leaky:
        return rounded_shift(total, shift, numerics.rounding)
    slope, more = ends["slope"], ends["slope_shift"]
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


def shifts_of(divisor: np.typing.NDArray[Any]) -> Ints:
    """The exponents of powers of two."""
    return np.array([int(value).bit_length() - 1 for value in divisor.ravel()], np.int64).reshape(divisor.shape)


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
