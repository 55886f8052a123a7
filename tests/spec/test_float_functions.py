"""Functions of narrow formats against decimals of fifty digits, and the proof of their rounding."""

import decimal
from collections.abc import Callable
from fractions import Fraction

import pytest

from toolchain.spec import float_functions
from toolchain.spec.exact_floats import decode, from_fraction
from toolchain.spec.float_functions import function_value
from toolchain.spec.model import FloatType
from toolchain.spec.model.types import BF16, F8E4M3, F8E5M2, F16

D = decimal.Decimal


def _tanh(x: D) -> D:
    grown = (2 * x).exp()
    return (grown - 1) / (grown + 1)


def _erf(x: D) -> D:
    """The series 2/sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1))."""
    pi = D("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
    total, term, n = D(0), x, 0
    while abs(term) > D(10) ** -95:
        total, n = total + term / (2 * n + 1), n + 1
        term = -term * x * x / n
    return total * 2 / pi.sqrt()


EXACT: dict[str, Callable[[D], D]] = {"exp": D.exp, "log": D.ln, "tanh": _tanh, "erf": _erf}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kind", [F16, BF16, F8E4M3, F8E5M2], ids=str)
def test_values_are_those_of_decimals(name: str, kind: FloatType) -> None:
    step = 1 if kind.bits == 8 else 911
    for code in range(0, 1 << kind.bits, step):
        number = decode(code, kind)
        if number is None or number.size is None or not 0 < number.size < 9 or (name == "log" and number.negative):
            continue
        with decimal.localcontext(prec=100):
            exact = Fraction(EXACT[name](D(number.value.numerator) / D(number.value.denominator)))
        assert function_value(name, code, kind) == from_fraction(exact, kind), code


def test_special_values() -> None:
    nan, one, infinite, less = F16.nan, 0x3C00, F16.infinity, F16.low + F16.infinity
    assert [function_value("exp", x, F16) for x in (0, F16.low, infinite, less, nan)] == [one, one, infinite, 0, nan]
    assert [function_value("log", x, F16) for x in (0, F16.low, one, infinite, less)] == [less, less, 0, infinite, nan]
    assert [function_value("tanh", x, F16) for x in (0, F16.low, infinite, less, nan)] == [0, F16.low, one, F16.low + one, nan]
    assert [function_value("erf", x, F16) for x in (0, F16.low, infinite)] == [0, F16.low, one]
    assert function_value("log", 0, F8E4M3) == F8E4M3.nan


def test_a_value_near_a_tie_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(float_functions.FUNCTIONS, "exp", lambda x: x + 2049)
    with pytest.raises(ArithmeticError, match="tie of f16"):
        function_value("exp", 0, F16)
