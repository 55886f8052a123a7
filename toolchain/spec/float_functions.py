"""exp, log, tanh and erf, correctly rounded, of every value of a format with at most 16 bits.

The math library gives a double. It is taken to be wrong by less than 2**-48 of itself, sixteen times more than libraries document; where
both ends of that interval round to the same value, so does the exact result. No value of these formats and functions fails that proof.
"""

import math
from collections.abc import Callable
from fractions import Fraction

from toolchain.spec.exact_floats import Number, Real, decode, encode, power_of_two
from toolchain.spec.model import FloatType

WIDEST = 16
"""Bits of the formats that have these functions."""
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
