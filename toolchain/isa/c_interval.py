"""Interval arithmetic on exact integers: which C type holds every value an expression can take."""

from dataclasses import dataclass

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
    """What `x op y` can be for x in a and y in b."""
    match op:
        case "+":
            return Interval(a.low + b.low, a.high + b.high)
        case "-":
            return Interval(a.low - b.high, a.high - b.low)
        case "*":
            return _corners([x * y for x in (a.low, a.high) for y in (b.low, b.high)])
        case "//":
            return _quotient(a, b)
        case "%":
            return Interval(0, min(b.high - 1, a.high if a.low >= 0 else b.high - 1)) if b.low > 0 else Interval(min(b.low, 0), max(b.high, 0))
        case "<<":
            amounts = (max(0, min(b.low, SHIFT_LIMIT)), max(0, min(b.high, SHIFT_LIMIT)))
            return _corners([x << s for x in (a.low, a.high) for s in amounts])
        case ">>":
            amounts = (max(0, min(b.low, 4096)), max(0, min(b.high, 4096)))
            return _corners([x >> s for x in (a.low, a.high) for s in amounts])
        case _:
            return _bitwise(op, a, b)


def _corners(values: list[int]) -> Interval:
    return Interval(min(values), max(values))


def _quotient(a: Interval, b: Interval) -> Interval:
    if b.low > 0:
        return _corners([x // y for x in (a.low, a.high) for y in (b.low, b.high)])
    largest = max(abs(a.low), abs(a.high))
    return Interval(-largest - 1, largest + 1)


def _bitwise(op: str, a: Interval, b: Interval) -> Interval:
    if op == "&" and (a.low >= 0 or b.low >= 0):
        return Interval(0, min(i.high for i in (a, b) if i.low >= 0))
    bits = max(x.bit_length() for i in (a, b) for x in (i.low, i.high, ~i.low, ~i.high))
    return Interval(0 if a.low >= 0 and b.low >= 0 else -(1 << bits), (1 << bits) - 1)
