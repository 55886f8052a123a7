"""The reference's exact operations against numpy's float32, and its roundings against the decimal module's."""

import ctypes
import ctypes.util
import decimal
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.float_machine import SPECIAL
from toolchain.emulator.reference.floating import operation, reduction
from toolchain.isa.semantics import ir
from toolchain.spec.expr import Const
from toolchain.spec.float_functions import decode, from_fraction
from toolchain.spec.model import FloatType, ScalarType
from toolchain.spec.model.types import BF16, F8E4M3, F8E5M2, F16, F32

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


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@settings(max_examples=400, deadline=None, derandomize=True)
@given(a=BITS, b=BITS)
def test_arithmetic_is_numpys(op: str, a: int, b: int) -> None:
    with np.errstate(all="ignore"):
        wanted = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op](as_float(a), as_float(b))
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


NARROW: list[tuple[FloatType, np.dtype[np.generic]]] = [
    (F16, np.dtype(np.float16)), (BF16, np.dtype(ml_dtypes.bfloat16)),
    (F8E4M3, np.dtype(ml_dtypes.float8_e4m3fn)), (F8E5M2, np.dtype(ml_dtypes.float8_e5m2)),
]  # fmt: skip
OPERATORS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@pytest.mark.parametrize(("kind", "dtype"), NARROW, ids=[str(kind) for kind, _ in NARROW])
def test_narrow_arithmetic_is_ml_dtypes(kind: FloatType, dtype: np.dtype[np.generic]) -> None:
    """The libraries compute in float32, which has more than twice the bits, and round once more: that is exact."""
    rng, word = np.random.default_rng(1), f"i{kind.bits // 8}"
    a, b = (rng.integers(kind.low, kind.high + 1, 1500).astype(word) for _ in range(2))
    for op, function in OPERATORS.items():
        with np.errstate(all="ignore"):
            wanted = function(a.view(dtype).astype(np.float32), b.view(dtype).astype(np.float32)).astype(dtype)
        bits = np.where(np.isnan(wanted.astype(np.float32)), kind.nan, wanted.view(word)).tolist()
        apply = operation(ir.Float(op, kind, (ZERO, ZERO)))
        assert [apply([x, y]) for x, y in zip(a.tolist(), b.tolist(), strict=True)] == bits, op


@settings(max_examples=300, deadline=None, derandomize=True)
@given(a=BITS, b=BITS, c=BITS)
def test_fused_and_roots_are_those_of_c(a: int, b: int, c: int) -> None:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.fmaf.restype, library.fmaf.argtypes = ctypes.c_float, (ctypes.c_float,) * 3
    fused = np.float32(library.fmaf(*(float(as_float(x)) for x in (a, b, c))))
    with np.errstate(all="ignore"):
        root = np.sqrt(as_float(a))
    for found, wanted in ((apply("fma", a, b, c), fused), (apply("sqrt", a), root)):
        assert found == (0x7FC00000 if np.isnan(wanted) else wanted.view(np.int32))


def bits_of(values: list[float]) -> list[int]:
    return [from_fraction(Fraction(x), F32, math.copysign(1, x) < 0) for x in values]


def reduce(op: str, values: list[float], width: int = 0) -> float:
    found = decode(reduction(ir.FloatReduce(op, ZERO, ("c",), F32, width))(bits_of(values)), F32)
    assert found is not None
    return float(found.value)


def test_orders_of_sums() -> None:
    large, terms = float(1 << 24), [float(1 << 24), 1.0, 1.0, 1.0]
    assert reduce("in_order", terms) == large
    assert reduce("tree", terms, 4) == reduce("tree", terms, 2) == large + 2
    assert reduce("exact", terms) == large + 4
    assert reduce("in_order", terms[::-1]) == large + 4
    assert reduce("exact", [1e38, 1e38, 1e38, 1e38, -1e38, -1e38, -1e38]) == np.float32(1e38)
    tie = [large + 2, large + 2, large, -large]
    assert [reduce("dot_exact", tie), reduce("dot_exact", [*tie, 2.0**-60, 2.0**-80])] == [1 << 26, (1 << 26) + 8]
    assert [reduction(ir.FloatReduce("exact", ZERO, ("c",), F32))(bits_of(x)) for x in ([-0.0, -0.0], [-0.0, 0.0], [1.0, -1.0])] == [-(1 << 31), 0, 0]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=20))
def test_exact_sums_are_fsums(values: list[float]) -> None:
    """Where float32 rounds the exact sum as it rounds the double next to it."""
    exact, near = sum(map(Fraction, values)), math.fsum(values)
    if Fraction(near) == exact:
        assert np.float32(reduce("exact", values)) == np.float32(near)
    assert abs(Fraction(reduce("exact", values)) - exact) <= abs(exact) / (1 << 24) + Fraction(1, 1 << 150)
