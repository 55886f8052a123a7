"""How large a tensor's values are: counts over octaves, four steps each, so that no range has to be known beforehand."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Array = np.typing.NDArray[np.float32]
Counts = np.typing.NDArray[np.int64]
STEPS = 4
"""Bins an octave; a power of two, so a bin is the top bits of a float32."""
_SHIFT = 23 - 2
BINS = 1 << (8 + 2)
ONE = 127 * STEPS
"""The bin that begins at 1.0."""


def count(values: Array) -> Counts:
    """[BINS] how many |values| fall into each bin; bin 0 holds zero too."""
    return np.bincount((values.ravel().view(np.uint32) & np.uint32(0x7FFFFFFF)) >> np.uint32(_SHIFT), minlength=BINS)[:BINS]


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
