"""Floating formats in exact arithmetic: bits to numbers, numbers to the nearest bits. Slow and obviously right."""

from dataclasses import dataclass
from fractions import Fraction

from toolchain.spec.model import FloatType


@dataclass(frozen=True, slots=True)
class Real:
    """A number with a sign, also of zero. size: its magnitude; None is infinite."""

    negative: bool
    size: Fraction | None

    @property
    def value(self) -> Fraction:
        """The finite number."""
        assert self.size is not None
        return -self.size if self.negative else self.size


Number = Real | None
"""None is NaN."""


def decode(bits: int, kind: FloatType) -> Number:
    """The number that bits (as a signed or unsigned integer) stand for."""
    negative, code = bool(bits >> (kind.bits - 1) & 1), bits & kind.magnitude
    if code > kind.greatest:
        return Real(negative, None) if kind.infinities and code == kind.infinity else None
    exponent, fraction = code >> kind.fraction, code & ((1 << kind.fraction) - 1)
    whole = fraction + (1 << kind.fraction) if exponent else fraction
    return Real(negative, whole * power_of_two(max(exponent, 1) - kind.bias - kind.fraction))


def encode(number: Number, kind: FloatType, saturate: bool = False) -> int:
    """The bits of the nearest value, ties to even, as a signed integer.

    Past the greatest: infinity, or NaN in a format without it; with `saturate`, the greatest.
    """
    if number is None:
        return kind.nan
    code = _magnitude(number.size, kind)
    if saturate:
        code = min(code, kind.greatest)
    return code - (1 << (kind.bits - 1)) if number.negative and code != kind.nan else code


def _magnitude(size: Fraction | None, kind: FloatType) -> int:
    beyond = kind.infinity if kind.infinities else kind.nan
    if size is None:
        return beyond
    if not size:
        return 0
    unit = max(_floor_log(size), 1 - kind.bias) - kind.fraction
    count = round(size / power_of_two(unit))  # Python's round takes ties to even
    code = ((unit + kind.fraction + kind.bias - 1) << kind.fraction) + count
    return code if code <= kind.greatest else beyond


def _floor_log(size: Fraction) -> int:
    """The greatest n with 2**n <= size, for a size above zero."""
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if power_of_two(guess) <= size else guess - 1


def power_of_two(exponent: int) -> Fraction:
    """2**exponent"""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def from_fraction(value: Fraction | int, kind: FloatType, negative_zero: bool = False) -> int:
    """The bits of the nearest value of an exact number. negative_zero: the sign where that is zero before rounding."""
    return encode(Real(value < 0 or (not value and negative_zero), abs(Fraction(value))), kind)


def is_exact(value: int, kind: FloatType) -> bool:
    """Whether an integer is one of the format's numbers."""
    found = decode(from_fraction(value, kind), kind)
    return found is not None and found.size is not None and found.value == value
