"""Interval arithmetic on exact integers: which C type holds every value an expression can take."""

from dataclasses import dataclass

from toolchain.isa.semantics import intervals

SHIFT_LIMIT = 62
"""Left shifts by more are refused at run time; nothing real needs them, and 64 bits could not hold the result."""


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from low to high."""

    low: int
    high: int

    @property
    def bits(self) -> int:
        """The signed C integer that holds it: 32, 64 or 128 bits, or 256 when none does."""
        needed = 1 + max((value if value >= 0 else ~value).bit_length() for value in (self.low, self.high))
        return next((bits for bits in (32, 64, 128) if needed <= bits), 256)

    def within(self, low: int, high: int) -> bool:
        return low <= self.low and self.high <= high

    def join(self, other: "Interval") -> "Interval":
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def meet(self, other: "Interval") -> "Interval":
        """The common part; the other interval where there is none (dead code)."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else other


INT64 = Interval(-(1 << 63), (1 << 63) - 1)
TRUTH = Interval(0, 1)


def binary(op: str, a: Interval, b: Interval) -> Interval:
    """Bounds on `x op y` for x in a and y in b, where C computes it at all."""
    if op == "<<":
        b = Interval(max(0, min(b.low, SHIFT_LIMIT)), max(0, min(b.high, SHIFT_LIMIT)))
    return Interval(*intervals.binary(op, (a.low, a.high), (b.low, b.high)))
