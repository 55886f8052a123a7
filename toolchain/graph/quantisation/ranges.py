"""Chooses the value of one stored step from a histogram of a tensor's values.

Histograms count over octaves, four steps each, so that no range has to be known beforehand. The origin of a network's ranges is stored in the integer
network's file, and printed beside every figure of accuracy."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import onnx_ir as ir

from toolchain.spec.arrays import Array, Floats
from toolchain.spec.compile import load_checker
from toolchain.spec.model.quantisation import Form, Range

Counts = np.typing.NDArray[np.int64]
Bits = np.typing.NDArray[np.uint32]
STEPS = 4
"""Bins an octave; a power of two, so a bin is the top bits of a float32."""
_SHIFT = 23 - 2
BINS = 1 << (8 + 2)
ONE = 127 * STEPS
"""The bin that begins at 1.0."""


COUNTED = 1 << 15
"""Values that are counted at once: whole numbers as wide as bincount wants them then stay in a processor's cache."""
TABLES = 4
"""Tables of counts that the C fills side by side."""


def count(values: Floats) -> Counts:
    """[BINS] how many |values| fall into each bin; bin 0 holds zero too. In C where there is a compiler, else in numpy, with the same result."""
    bits, library = np.ascontiguousarray(values).reshape(-1).view(np.uint32), load_checker("tally")
    found = _in_numpy(bits) if library is None else _in_c(library, bits)
    return found[:BINS] + found[BINS:]  # the sign is the top bit


def _in_c(library: ctypes.CDLL, bits: Bits) -> Counts:
    counts = np.zeros((TABLES, 2 * BINS), np.int64)
    sizes = ctypes.c_int64(bits.size), ctypes.c_int64(2 * BINS), ctypes.c_int32(_SHIFT)
    library.tally(*sizes, ctypes.c_void_p(bits.ctypes.data), ctypes.c_void_p(counts.ctypes.data))
    return counts.sum(0)


def _in_numpy(bits: Bits) -> Counts:
    found = np.zeros(2 * BINS, np.int64)
    for first in range(0, len(bits), COUNTED):
        found += np.bincount(bits[first : first + COUNTED] >> np.uint32(_SHIFT), minlength=2 * BINS)
    return found


def centre(number: int) -> float:
    """The middle of a bin."""
    octave, step = divmod(number - ONE, STEPS)
    return float(2.0**octave * (1 + (step + 0.5) / STEPS))


@dataclass(frozen=True)
class Spread:
    """maximum: the largest |value|, 0 where all are zero. bins: (bin, parts per million of all values), the empty ones left out.

    low, high: the least and the largest value, None where they are not known.
    """

    maximum: float
    bins: tuple[tuple[int, int], ...]
    low: float | None = None
    high: float | None = None

    @property
    def least(self) -> float:
        """The least value, or zero."""
        return min(-self.maximum if self.low is None else self.low, 0.0)

    @property
    def most(self) -> float:
        """The largest value, or zero."""
        return max(self.maximum if self.high is None else self.high, 0.0)

    def times(self, factor: float) -> "Spread":
        """The spread of the values times a positive factor, with bins moved by the nearest whole number."""
        shift = round(math.log2(factor) * STEPS)
        moved = tuple((number + shift if number else 0, parts) for number, parts in self.bins)
        return Spread(rounded(self.maximum * factor), moved, *(None if end is None else rounded(end * factor) for end in (self.low, self.high)))

    def percentile(self, share: float) -> float:
        """The value that this share (0 to 1) of all |values| does not exceed, to the end of its bin."""
        above = sum(parts for _, parts in self.bins) * (1 - share)
        left = 0
        for number, parts in sorted(self.bins, reverse=True):
            left += parts
            if left > above:
                return min(self.maximum, centre(number) * (1 + 0.5 / STEPS))
        return self.maximum

    @cached_property
    def _values(self) -> list[tuple[float, int]]:
        """The value that stands for each bin, and its parts."""
        return [(min(centre(number), self.maximum), parts) for number, parts in self.bins]

    @property
    def deviation(self) -> float:
        """Root mean square of the values, by the middles of their bins; the largest one where nothing was counted."""
        total = sum(parts for _, parts in self.bins)
        square = sum(parts * value**2 for value, parts in self._values)
        return (square / total) ** 0.5 if total else self.maximum

    def squared_error(self, step: float, limit: float) -> float:
        """The mean squared error of rounding to multiples of `step` and clipping at `limit`."""
        total = 0.0
        for value, parts in self._values:
            clipped = max(value - limit, 0.0)
            total += parts * (clipped**2 if clipped else min(step * step / 12, value * value))
        return total


def spread(counts: Counts, maximum: float, low: float | None = None, high: float | None = None) -> Spread:
    """Rounded so that last bits of a float sum on another processor do not show."""
    total = max(int(counts.sum()), 1)
    parts = [(int(number), round(int(counts[number]) * 1_000_000 / total)) for number in np.flatnonzero(counts)]
    ends = (None if end is None else rounded(end) for end in (low, high))
    return Spread(rounded(maximum), tuple((number, share) for number, share in parts if share), *ends)


def rounded(value: float, digits: int = 4) -> float:
    """To a number of significant decimal digits."""
    return float(f"{value:.{digits}g}")


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


def fitting_positions(values: Array, high: int) -> np.typing.NDArray[np.int64]:
    """For each value, the greatest p at which its magnitude in steps of 2**-p is at most `high`; of no matter where it is 0."""
    mantissas, exponents = np.frexp(np.abs(values.astype(np.float64)) / high)
    return (mantissas == 0.5).astype(np.int64) - exponents


def positions(scales: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.int64]:
    """p of each scale 2**-p."""
    return 1 - np.frexp(scales)[1].astype(np.int64)


def position(scale: float) -> int:
    """p of a scale 2**-p."""
    return -(math.frexp(scale)[1] - 1)


CALIBRATED = "tilewright.calibrated"
"""Metadata of an integer model: RECORDED, REPLACED, KEPT, DECLARED, MADE_UP, ROUNDED or ROUNDED_TO_BF16."""
RECORDED, REPLACED, KEPT, DECLARED, MADE_UP, ROUNDED = "recorded", "replaced", "kept", "declared", "made-up", "rounded"
ROUNDED_TO_BF16 = "rounded to bf16"
"""REPLACED: recorded samples in place of a quantised model's own scales. KEPT: its scales as they are. DECLARED: scales of the machine's for its
ranges. ROUNDED, ROUNDED_TO_BF16: in a floating format, without ranges."""


def calibration_kind(model: ir.Model) -> str:
    """The origin of an integer model's ranges; empty for any other model."""
    return model.metadata_props.get(CALIBRATED, "")


def calibration_text(kind: str) -> str:
    """One line for a summary."""
    match kind:
        case "recorded":
            return "on recorded samples"
        case "replaced":
            return "on recorded samples, in place of the scales that the quantised model declares"
        case "kept":
            return "by the scales that the quantised model declares, kept as they are"
        case "declared":
            return (
                "by the ranges that the quantised model declares, quantised anew in the machine's own scales, which may lose much: recorded samples "
                "(calibration=FILE), or the network before it was quantised, lose less; what it says nothing of, on made-up samples"
            )
        case "made-up":
            return "on made-up samples, so figures of accuracy say little: give recorded ones by calibration=FILE or in the model's file"
        case "rounded":
            return "not at all, as values are rounded to float16"
        case "rounded to bf16":
            return "not at all, as values are rounded to bfloat16"
        case "":
            return "not at all, as nothing is computed in integers"
        case _:
            return "it is not known how"
