"""Floating formats in exact arithmetic: bits to numbers and numbers to the nearest bits; exp, log, tanh and erf, correctly rounded, of every
value of a format with at most 16 bits. Slow and obviously right.

The math library gives a double. It is taken to be wrong by less than 2**-48 of itself, sixteen times more than libraries document; where
both ends of that interval round to the same value, so does the exact result. No value of these formats and functions fails that proof.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from toolchain.spec.model import FloatType

WIDEST = 16
"""Bits of the formats that have these functions."""


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
    return decoder(kind)(bits)


@functools.cache
def decoder(kind: FloatType) -> Callable[[int], Number]:
    """`decode` of one format, which remembers the numbers of the latest bits: looking a format up takes longer than decoding."""
    return functools.lru_cache(maxsize=1 << 17)(functools.partial(_decoded, kind))


def _decoded(kind: FloatType, bits: int) -> Number:
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
    if size is None:
        return _beyond(kind)
    if not size:
        return 0
    above, below, bias = size.numerator, size.denominator, kind.bias
    unit = max(_floor_log(above, below), 1 - bias) - kind.fraction
    count = _ratio_to_even(above << -unit, below) if unit < 0 else _ratio_to_even(above, below << unit)
    code = ((unit + kind.fraction + bias - 1) << kind.fraction) + count
    return code if code <= kind.greatest else _beyond(kind)


def _beyond(kind: FloatType) -> int:
    """The bits of what is past the greatest number."""
    return kind.infinity if kind.infinities else kind.nan


def _ratio_to_even(numerator: int, denominator: int) -> int:
    """The nearest integer to a ratio, ties to even."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole & 1))


def _floor_log(above: int, below: int) -> int:
    """The greatest n with 2**n <= above / below, for a ratio above zero."""
    guess = above.bit_length() - below.bit_length()
    return guess if (below << guess <= above if guess > 0 else below <= above << -guess) else guess - 1


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


DOUBT = power_of_two(-48)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _exp(x: float) -> float:
    return math.inf if x > 709 else math.exp(x)  # 709 is past all the formats' ranges, not past that of a double


FUNCTIONS: dict[str, Callable[[float], float]] = {"exp": _exp, "log": _log, "tanh": math.tanh, "erf": math.erf}


def function_value(name: str, bits: int, kind: FloatType) -> int:
    """The bits of the nearest value to the function of a value. Raises ArithmeticError where that cannot be proved."""
    return encode(_nearest(FUNCTIONS[name](_double(decode(bits, kind))), kind), kind)


def _double(number: Number) -> float:
    if number is None:
        return math.nan
    size = math.inf if number.size is None else float(number.size)
    return -size if number.negative else size


def _nearest(found: float, kind: FloatType) -> Number:
    if math.isnan(found):
        return None
    negative = math.copysign(1, found) < 0
    if math.isinf(found):
        return Real(negative, None)
    size = abs(Fraction(found))
    low, high = (Real(negative, size * factor) for factor in (1 - DOUBT, 1 + DOUBT))
    if encode(low, kind) != encode(high, kind):
        raise ArithmeticError(f"{found!r} is too near to a tie of {kind}")
    return low


__all__ = ["FUNCTIONS", "WIDEST", "function_value"]
