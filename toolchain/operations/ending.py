"""From exact sums to stored integers: y = clip(zero + round(activation(sum * scale)), low, high), in whole numbers but for a scale in float32."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from toolchain.operations.kind import OperationKind
from toolchain.operations.numbers import Attributes
from toolchain.spec.arrays import Array, Ints
from toolchain.spec.model.quantisation import Numerics, Rounding

SCALINGS: Mapping[str, tuple[str, ...]] = {"power_of_two": ("shift",), "multiplier": ("multiplier", "shift"), "float32": ("scale",), "none": ()}
"""Factors of a requantisation, by the form of a machine's scales."""


def by_channel(kind: OperationKind, numerics: Numerics) -> bool:
    """Whether each channel of an operation has a scale of its own."""
    return bool(kind.bias) and numerics.per_channel


def of_call(numerics: Numerics, channels: bool) -> Numerics:
    """The arithmetic of one operation: where scales are shifts, channels have their own only if it is given them. channels: whether it is."""
    return replace(numerics, per_channel=channels) if numerics.form == "power_of_two" and numerics.per_channel != channels else numerics


def scaling_attributes(kind: OperationKind, numerics: Numerics) -> tuple[str, ...]:
    """Attributes of an integer call that make its scale."""
    return () if by_channel(kind, numerics) else SCALINGS[numerics.form]


def scaling_operands(kind: OperationKind, numerics: Numerics) -> tuple[str, ...]:
    """Operands of an integer call, behind its own, that make the scale of each channel: int32, or float32 for `scale`."""
    return SCALINGS[numerics.form] if by_channel(kind, numerics) else ()


def zero_names(kind: OperationKind, numerics: Numerics) -> tuple[str, ...]:
    """Attributes of an integer call that say which stored integers stand for zero."""
    return kind.zeros if numerics.zero_points else ()


def first_stored(numerics: Numerics) -> int:
    """The stored integer of a table's first entry."""
    return -128 if numerics.stored == "int8" else 0


@dataclass(frozen=True)
class Scaling:
    """factor / 2**shift, int64, or the factor alone, float32; one, or an array that broadcasts against the sums."""

    factor: Array | np.int64 | int = 1
    shift: Array | np.int64 | int = 0

    @property
    def single(self) -> bool:
        return np.asarray(self.factor).dtype == np.float32


def scaling_of(given: Attributes) -> Scaling:
    """given: attributes or operands of a call, or numbers of an operation, by name."""
    if "scale" in given:
        return Scaling(np.asarray(given["scale"], np.float32))
    return Scaling(np.asarray(given.get("multiplier", 1), np.int64), np.asarray(given["shift"], np.int64))


def requantised(total: Ints, scaling: Scaling, leaky: bool, ends: Attributes, numerics: Numerics) -> Array:
    """ends: low, high, zero_y where tensors have zeros, and of a leaky activation slope and slope_shift. Of the stored type."""
    if scaling.single:
        rounded = _scaled(total, scaling, leaky, ends, numerics)
    else:
        rounded = _activated(total * scaling.factor, scaling.shift, leaky, ends, numerics)
    return np.clip(rounded + int(ends.get("zero_y", 0)), ends["low"], ends["high"]).astype(numerics.stored)


def _activated(product: Ints, shift: Ints | np.int64 | int, leaky: bool, ends: Attributes, numerics: Numerics) -> Ints:
    if not leaky:
        return twice_rounded(product, shift, numerics)
    slope, more = ends["slope"], ends["slope_shift"]
    if numerics.order == "activation_first":
        return np.where(product < 0, twice_rounded(product * slope, shift + more, numerics), twice_rounded(product, shift, numerics))
    whole = twice_rounded(product, shift, numerics)
    return np.where(whole < 0, rounded_shift(whole * slope, np.int64(more), numerics.rounding), whole)


def _scaled(total: Ints, scaling: Scaling, leaky: bool, ends: Attributes, numerics: Numerics) -> Array:
    """The sum as float32 times a float32, each rounded to the nearest, ties to even; then to a whole number."""
    exact = np.asarray(total.astype(np.float32) * scaling.factor, np.float64)
    if not leaky:
        return rounded_real(exact, numerics.rounding)
    slope = ends["slope"] / 2.0 ** ends["slope_shift"]
    if numerics.order == "activation_first":
        return rounded_real(np.where(exact < 0, exact * slope, exact), numerics.rounding)
    whole = rounded_real(exact, numerics.rounding)
    return np.where(whole < 0, rounded_real(whole * slope, numerics.rounding), whole)


def twice_rounded(value: Ints, shift: Ints | np.int64 | int, numerics: Numerics) -> Ints:
    """value / 2**shift, rounded as often as the machine does."""
    first = numerics.first_rounding
    if first is None:
        return rounded_shift(value, shift, numerics.rounding)
    high = np.minimum(shift, first.shift)
    return rounded_shift(rounded_shift(value, high, first.rounding), shift - high, numerics.rounding)


def rounded_shift(value: Ints, shift: np.int64 | Ints | int, rounding: Rounding) -> Ints:
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


def quantize(x: Array, scale: float, low: int, high: int, numerics: Numerics, zero: int = 0) -> Array:
    """Floats to stored integers; the quotient is rounded once to float64, as the ONNX function does. zero: the integer that stands for zero.

    The one table of special values, also the ONNX function's and a stand-alone program's: NaN becomes `zero`, infinity `high`, minus infinity `low`.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a signalling NaN
        exact = x.astype(np.float64) / np.float64(np.float32(scale))
    known = np.clip(np.where(np.isnan(exact), 0.0, exact), -(2.0**40), 2.0**40)
    return np.clip(rounded_real(known, numerics.rounding) + zero, low, high).astype(numerics.stored)


def rounded_real(exact: np.typing.NDArray[np.float64], rounding: Rounding) -> np.typing.NDArray[np.float64]:
    """float64 to the nearest whole number, as float64."""
    down = np.floor(exact)
    rest = exact - down
    match rounding:
        case "floor":
            return down
        case "half_up":
            return np.where(rest >= 0.5, down + 1, down)
        case "half_even":
            return np.where((rest > 0.5) | ((rest == 0.5) & (down % 2 == 1)), down + 1, down)
        case "half_away":
            return np.where((rest > 0.5) | ((rest == 0.5) & (exact >= 0)), down + 1, down)
