"""Exact conversions against the formats of numpy and ml_dtypes. Functions of narrow formats against decimals of fifty digits, and the proof of
their rounding."""

import decimal
import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.spec import float_functions
from toolchain.spec.evaluate import BUILT_IN
from toolchain.spec.float_functions import Real, decode, encode, from_fraction, function_value, is_exact
from toolchain.spec.model import FloatType
from toolchain.spec.model.types import BF16, F8E4M3, F8E5M2, F16, F32, FLOATS

DTYPES = {
    "f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
KINDS = pytest.mark.parametrize("kind", FLOATS.values(), ids=str)

D = decimal.Decimal


def numbers(codes: list[int], kind: FloatType) -> list[float]:
    """The values of codes from 0 up, as the libraries have them."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.array(codes, f"u{kind.bits // 8}").view(DTYPES[kind.name]).astype(np.float64).tolist()


@KINDS
def test_bits_mean_what_the_libraries_say(kind: FloatType) -> None:
    rng = np.random.default_rng(0)
    codes = list(range(256)) if kind.bits == 8 else [*rng.integers(0, 1 << kind.bits, 2000).tolist(), 0, kind.infinity, kind.nan, kind.greatest]
    for code, wanted in zip(codes, numbers(codes, kind), strict=True):
        found = decode(code, kind)
        if found is None:
            assert math.isnan(wanted), code
            continue
        assert found.negative == (math.copysign(1, wanted) < 0)
        assert (math.inf if found.size is None else found.size) == abs(wanted)
        assert encode(found, kind) & (1 << kind.bits) - 1 == code


@KINDS
@settings(max_examples=300, deadline=None, derandomize=True)
@given(value=st.floats(width=32, allow_nan=False))
def test_a_float_rounds_as_the_libraries_round(kind: FloatType, value: float) -> None:
    exact = Real(math.copysign(1, value) < 0, None if math.isinf(value) else abs(Fraction(value)))
    with np.errstate(over="ignore"):
        wanted = np.float32(value).astype(DTYPES[kind.name])
    found = encode(exact, kind)
    if np.isnan(wanted):
        assert found == kind.nan
    else:
        assert found == wanted.view(f"i{kind.bits // 8}")
    if math.isinf(value) or np.isinf(wanted) or np.isnan(wanted):
        assert encode(exact, kind, saturate=True) & kind.magnitude == kind.greatest
    else:
        assert encode(exact, kind, saturate=True) == found


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.floats(width=64, allow_nan=False))
def test_a_double_rounds_as_numpy_rounds(value: float) -> None:
    exact = Real(math.copysign(1, value) < 0, None if math.isinf(value) else abs(Fraction(value)))
    with np.errstate(over="ignore"):
        assert encode(exact, F32) == np.float64(value).astype(np.float32).view(np.int32)
        assert encode(exact, F16) == np.float64(value).astype(np.float16).view(np.int16)


def test_every_nan_becomes_one() -> None:
    assert encode(None, F32) == 0x7FC00000
    assert encode(None, F8E4M3) == 0x7F
    assert encode(Real(True, None), F8E4M3) == 0x7F
    assert {decode(bits, F32) for bits in (0x7F800001, 0x7FC00000, 0xFFC00001)} == {None}


def test_integers_round_to_even() -> None:
    assert decode(from_fraction((1 << 24) + 1, F32), F32) == Real(False, Fraction(1 << 24))
    assert decode(from_fraction((1 << 24) + 3, F32), F32) == Real(False, Fraction((1 << 24) + 4))
    assert [is_exact(1 << 24, F32), is_exact((1 << 24) + 1, F32)] == [True, False]
    assert [is_exact(value, F8E4M3) for value in (448, 464, 17, -18)] == [True, False, False, True]
    assert [is_exact(value, F8E5M2) for value in (57344, 61440, 1 << 20)] == [True, False, False]


def test_a_zero_keeps_its_sign() -> None:
    assert from_fraction(0, F32) == 0
    assert from_fraction(0, F32, negative_zero=True) == -(1 << 31)
    assert from_fraction(Fraction(-1, 1 << 200), F32) == -(1 << 31)


def test_every_format_is_a_word_of_the_language() -> None:
    assert set(FLOATS) <= set(BUILT_IN)


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
