"""From an exact sum to a stored value, as every operation ends: y = clip(round(activation(total / 2**shift)), low, high)."""

from dataclasses import dataclass

NUMBERS = ("shift", "half", "low", "high", "slope", "slope_shift")


@dataclass(frozen=True)
class Requantise:
    """low, high: limits, relu and clip in them. slope / 2**slope_shift: what leaky multiplies negative values by; 0 for no leaky.

    half: half of 1 << shift, which makes the shift round half up.
    """

    shift: int = 0
    low: int = -128
    high: int = 127
    slope: int = 0
    slope_shift: int = 0

    @property
    def half(self) -> int:
        return (1 << self.shift) >> 1

    @property
    def numbers(self) -> dict[str, int]:
        """The values of NUMBERS."""
        return dict(zip(NUMBERS, (self.shift, self.half, self.low, self.high, self.slope, self.slope_shift), strict=True))
