"""Signal and noise of tensors, gathered over samples."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.typing.NDArray[Any]
Doubles = np.typing.NDArray[np.float64]
MOST = 1e300
"""Stands for energy without end; 1 / MOST for none."""
MOST_PARTS = 128
LEAST_ELEMENTS = 16
"""An axis is split where it has at most MOST_PARTS entries of at least LEAST_ELEMENTS elements each."""


@dataclass
class Energy:
    """The energy of a wanted tensor and of its difference to one that was found: sums of squares, of the wanted values, and counts of elements.

    lost: elements whose error exceeds the deviation of the part's own wanted values, in the samples seen.
    """

    signal: float = 0.0
    noise: float = 0.0
    elements: int = 0
    lost: int = 0

    def add(self, wanted: Array, found: Array) -> None:
        """An element that is not finite in both adds no energy; in one alone it is noise without end."""
        one, other = wanted.astype(np.float64).ravel(), found.astype(np.float64).ravel()
        equal = (one == other) | (np.isnan(one) & np.isnan(other))
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(np.where(equal, 0.0, other - one))
            finite = one[np.isfinite(one)]
            self.signal += float((finite**2).sum())
            self.noise += float(np.nan_to_num(error**2, nan=MOST, posinf=MOST).sum())
            self.lost += int((~(error <= max(float(finite.std()) if finite.size else 0.0, 1 / MOST))).sum())
        self.elements += one.size

    @property
    def sqnr(self) -> float:
        """Signal to noise in dB, infinite without any noise."""
        if self.noise == 0:
            return math.inf
        return 10 * (math.log10(min(max(self.signal, 1 / MOST), MOST)) - math.log10(min(self.noise, MOST)))

    @property
    def lost_share(self) -> float:
        return self.lost / self.elements if self.elements else 0.0


def part_axis(shape: tuple[int, ...]) -> int:
    """The axis whose entries are judged separately, such as boxes and scores of a detector; 0 where the tensor is judged as a whole.

    Of the axes after the batch, the one with the fewest entries: more would be positions, not kinds.
    """
    size = int(np.prod(shape)) if shape else 1
    fitting = [k for k in range(1, len(shape)) if 1 < shape[k] <= MOST_PARTS and size // max(shape[0], 1) // shape[k] >= LEAST_ELEMENTS]
    return min(fitting, key=lambda k: (shape[k], k), default=0)
