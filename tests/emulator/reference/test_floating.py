"""The reference's exact operations against numpy's float32, and its roundings against the decimal module's."""

import decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.float_machine import SPECIAL
from toolchain.emulator.reference.floating import operation
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Const
from toolchain.spec.model import ScalarType
from toolchain.spec.model.types import F32

CORNERS = [int(bits) | sign for bits in SPECIAL for sign in (0, 1 << 31)]
BITS = st.one_of(st.sampled_from(CORNERS), st.integers(0, (1 << 32) - 1))
ZERO = Const(0)
DECIMAL = {
    "half_even": decimal.ROUND_HALF_EVEN, "floor": decimal.ROUND_FLOOR, "truncate": decimal.ROUND_DOWN, "half_away": decimal.ROUND_HALF_UP,
}  # fmt: skip


def signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


def apply(op: str, *values: int) -> int:
    return operation(ir.Float(op, F32, (ZERO,) * len(values)))([*map(signed, values)])


def as_float(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
@settings(max_examples=400, deadline=None, derandomize=True)
@given(a=BITS, b=BITS)
def test_arithmetic_is_numpys(op: str, a: int, b: int) -> None:
    with np.errstate(all="ignore"):
        wanted = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op](as_float(a), as_float(b))
    assert apply(op, a, b) == (0x7FC00000 if np.isnan(wanted) else wanted.view(np.int32))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(a=BITS, b=BITS)
def test_comparisons_and_extremes_are_numpys(a: int, b: int) -> None:
    x, y = as_float(a), as_float(b)
    assert [apply(op, a, b) for op in ("lt", "le", "eq")] == [x < y, x <= y, x == y]
    quiet_x, quiet_y = (as_float(bits | 1 << 22) if np.isnan(as_float(bits)) else as_float(bits) for bits in (a, b))  # fmin lets signalling NaNs win
    for op, function in (("minimum", np.minimum), ("maximum", np.maximum), ("minimum_number", np.fmin), ("maximum_number", np.fmax)):
        found, wanted = np.int32(apply(op, a, b)).view(np.float32), function(quiet_x, quiet_y)
        assert np.array_equal(found, wanted, equal_nan=True), op
    assert apply("minimum", 0, 1 << 31) == apply("minimum_number", 1 << 31, 0) == -(1 << 31)
    assert apply("maximum", 0, 1 << 31) == apply("maximum_number", 1 << 31, 0) == 0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(a=BITS)
def test_signs_and_bits(a: int) -> None:
    assert apply("to_bits", a) == a
    assert apply("from_bits", a) == signed(a)
    assert apply("neg", a) & 0xFFFFFFFF == a ^ 1 << 31
    assert apply("abs", a) == a & 0x7FFFFFFF
    assert apply("is_nan", a) == bool(np.isnan(as_float(a)))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_convert_as_numpys(value: int) -> None:
    assert operation(ir.ToFloat(ZERO, F32))([value]) == np.int64(value).astype(np.float32).view(np.int32)


@pytest.mark.parametrize("rounding", DECIMAL)
@pytest.mark.parametrize("kind", [ScalarType(True, 8), ScalarType(False, 16), ScalarType(True, 32), ScalarType(True, 64)], ids=str)
@settings(max_examples=100, deadline=None, derandomize=True)
@given(a=BITS)
def test_rounding_is_decimals(rounding: str, kind: ScalarType, a: int) -> None:
    found, x = operation(ir.ToInteger(ZERO, F32, rounding, kind))([signed(a)]), float(as_float(a))
    if np.isnan(x):
        assert found == 0
    elif np.isinf(x):
        assert found == (kind.high if x > 0 else kind.low)
    else:
        with decimal.localcontext(prec=400):
            whole = int(decimal.Decimal(x).to_integral_value(DECIMAL[rounding]))
        assert found == min(max(whole, kind.low), kind.high)


def test_half_up_goes_up() -> None:
    half_up = operation(ir.ToInteger(ZERO, F32, "half_up", ScalarType(True, 8)))
    assert [half_up([int(np.float32(x).view(np.int32))]) for x in (-1.5, -0.5, 0.5, 2.5, 0.49999997)] == [-1, 0, 1, 3, 0]
    assert Fraction(float(np.float32(0.49999997))) < Fraction(1, 2)
