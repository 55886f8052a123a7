"""Formats as numpy numbers, against exact fractions: every code of the small ones, and rounding where two roundings would differ. Tables of
functions: every value proved, and equal to the exact rounding. Floating operations on arrays and on single integers."""

from fractions import Fraction

import numpy as np
import pytest

from tests.float_machine import SPECIAL
from toolchain.emulator.numpy_engine.floating import decode, encode, from_integers, function_table, fused, rounded
from toolchain.emulator.reference.floating import operation
from toolchain.emulator.reference.floating import rounded as exactly
from toolchain.isa.semantics import ir
from toolchain.spec import float_functions
from toolchain.spec.expr import Const
from toolchain.spec.float_functions import FUNCTIONS, function_value
from toolchain.spec.float_functions import decode as exact
from toolchain.spec.model import FloatType, ScalarType
from toolchain.spec.model.types import BF16, F8E4M3, F8E5M2, F16, F32, FLOATS

KINDS = pytest.mark.parametrize("kind", FLOATS.values(), ids=str)
SINGLE = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.int32)
ZERO = Const(0)

BITS = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.int32)


def codes(kind: FloatType) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Signed codes: all of 8 bits, some of 16, special ones of 32."""
    if kind.bits == 32:
        return SINGLE.astype(np.int64)
    return np.arange(kind.low, kind.high + 1, 1 if kind.bits == 8 else 17)


@KINDS
def test_bits_survive_but_for_nan(kind: FloatType) -> None:
    bits = codes(kind)
    with np.errstate(all="ignore"):
        found = encode(decode(bits, kind), kind).tolist()
    assert found == [float_functions.encode(float_functions.decode(x, kind), kind) for x in bits.tolist()]


@KINDS
@pytest.mark.parametrize("saturate", [False, True])
def test_rounding_is_exact(kind: FloatType, saturate: bool) -> None:
    numbers = np.random.default_rng(2).normal(0, 1, 500) * 2.0 ** np.random.default_rng(3).integers(-160, 140, 500)
    with np.errstate(all="ignore"):
        found = encode(np.concatenate([numbers, [0.0, -0.0, np.inf, -np.inf]]), kind, saturate).tolist()
    reals = [float_functions.Real(x < 0, abs(Fraction(x))) for x in numbers.tolist()]
    ends = [float_functions.Real(False, Fraction(0)), float_functions.Real(True, Fraction(0))]
    ends += [float_functions.Real(False, None), float_functions.Real(True, None)]
    assert found == [float_functions.encode(x, kind, saturate) for x in [*reals, *ends]]


def test_large_integers_are_rounded_once() -> None:
    """2**62 + 2**54 + 1 lies above a tie of bfloat16 that a double between would hide."""
    numbers = [(1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 54), -(1 << 62) - (1 << 54) - 1, (1 << 63) - 1, -(1 << 63), 12345]
    found = encode(from_integers(np.array(numbers, np.int64)), BF16).tolist()
    assert found == [operation(ir.ToFloat(ZERO, BF16))([x]) for x in numbers]


@KINDS
def test_fused_rounds_once(kind: FloatType) -> None:
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(kind.low, kind.high + 1, 400) for _ in range(3))
    if kind == F32:  # products whose sum with c is a tie but for its last bits
        a[:200], b[:200], c[:200] = 0x3F800001, 0x3F800001 + np.arange(200), 0x33800000 - np.arange(200)
    with np.errstate(all="ignore"):
        found = fused(a, b, c, kind).tolist()
    exactly = operation(ir.Float("fma", kind, (ZERO, ZERO, ZERO)))
    assert found == [exactly([int(x), int(y), int(z)]) for x, y, z in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [F16, BF16, F8E4M3, F8E5M2], ids=str)
def test_tables_are_rounded_exactly(name: str, kind: FloatType) -> None:
    table = function_table(name, kind).tolist()
    assert len(table) == 1 << kind.bits
    for code in range(0, 1 << kind.bits, 1 if kind.bits == 8 else 257):
        assert table[code] == function_value(name, code, kind), code


@pytest.mark.parametrize("rounding", ["half_even", "half_up", "half_away", "floor", "truncate"])
@pytest.mark.parametrize("kind", [ScalarType(True, 8), ScalarType(False, 8), ScalarType(True, 32), ScalarType(True, 64)], ids=str)
def test_rounding_of_operations_is_exact(rounding: str, kind: ScalarType) -> None:
    with np.errstate(invalid="ignore"):
        found = rounded(decode(BITS, F32), rounding, kind)
    assert found.tolist() == [exactly(exact(bits, F32), rounding, kind) for bits in BITS.tolist()]
