"""Chooses the value of one stored step from a tensor's statistics."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from toolchain.graph.calibration.histogram import Spread
from toolchain.spec.model.quantisation import Form, Range

Method = Literal["max", "percentile", "error", "output"]
METHODS: tuple[Method, ...] = ("max", "percentile", "error", "output")
FINER = 4
"""How many halvings of the step below the one that clips nothing are tried."""
FRACTIONS = 64


def choose_scale(spreads: Sequence[Spread], stored: Range, form: Form, method: Method, percentile: float) -> float:
    """The scale for tensors that share one. max: nothing is clipped. percentile: this share is kept. error: least mean squared error; and of
    `output` where no samples tell of outputs (see output_ranges)."""
    largest = max(spread.maximum for spread in spreads)
    if largest == 0:
        return 1.0
    if method == "percentile":
        largest = max(max(spread.percentile(percentile) for spread in spreads), largest / 2**20)
    first = fitting_scale(largest, stored.high, form)
    if method in ("max", "percentile"):
        return first
    finer = [first / 2**n for n in range(FINER + 1)] if form == "power_of_two" else [first * (1 - n / FRACTIONS) for n in range(FRACTIONS * 7 // 8)]
    return min(finer, key=lambda scale: sum(spread.squared_error(scale, scale * stored.high) for spread in spreads))


def choose_step(spreads: Sequence[Spread], stored: Range, form: Form, method: Method, percentile: float) -> float:
    """Ranges of tensors with a zero point: the stored range covers all values seen."""
    low, high = _ends(spreads)
    if high == low:
        return 1.0
    steps, largest = stored.high - stored.low, max(-low, high)
    span = (high - low) / largest
    if method == "percentile":
        largest = max(max(spread.percentile(percentile) for spread in spreads), largest / 2**20)
    first = fitting_scale(largest * span, steps, form)
    if method in ("max", "percentile"):
        return first
    finer = [first / 2**n for n in range(FINER + 1)] if form == "power_of_two" else [first * (1 - n / FRACTIONS) for n in range(FRACTIONS * 7 // 8)]
    return min(finer, key=lambda scale: sum(spread.squared_error(scale, scale * steps / span) for spread in spreads))


def choose_zero(spreads: Sequence[Spread], stored: Range) -> int:
    """The stored integer that stands for zero where the stored range is spread over all that was seen."""
    low, high = _ends(spreads)
    return stored.low if high == low else stored.low + round(-low / (high - low) * (stored.high - stored.low))


def _ends(spreads: Sequence[Spread]) -> tuple[float, float]:
    """The least and the largest value, zero between them."""
    return min(spread.least for spread in spreads), max(spread.most for spread in spreads)


def fitting_scale(largest: float, high: int, form: Form) -> float:
    """The least scale at which `largest` is stored as at most `high`."""
    if form != "power_of_two":
        return largest / high
    mantissa, exponent = math.frexp(largest / high)
    return 2.0 ** (exponent - 1 if mantissa == 0.5 else exponent)


def fitting_positions(values: np.typing.NDArray[Any], high: int) -> np.typing.NDArray[np.int64]:
    """For each value, the greatest p at which its magnitude in steps of 2**-p is at most `high`; of no matter where it is 0."""
    mantissas, exponents = np.frexp(np.abs(values.astype(np.float64)) / high)
    return (mantissas == 0.5).astype(np.int64) - exponents


def positions(scales: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.int64]:
    """p of each scale 2**-p."""
    return 1 - np.frexp(scales)[1].astype(np.int64)


def position(scale: float) -> int:
    """p of a scale 2**-p."""
    return -(math.frexp(scale)[1] - 1)
