"""Floating formats as numpy numbers: float32 as it is, narrower ones as float64, which has all their values; rounding back to bits."""

import numpy as np

from toolchain.emulator.numpy_engine.expressions import where
from toolchain.emulator.numpy_engine.frame import Value
from toolchain.spec.model import FloatType

FRACTION, BIAS = 52, 1023
"""Of float64."""


def is_single(kind: FloatType) -> bool:
    """Whether numpy's float32 is the format."""
    return (kind.bits, kind.fraction) == (32, 23)


def decode(bits: Value, kind: FloatType) -> Value:
    """Bits as numbers: float32, or float64 for narrower formats."""
    if is_single(kind):
        return np.asarray(bits).astype(np.int32, copy=False).view(np.float32)
    return exact(bits, kind)


def exact(bits: Value, kind: FloatType) -> Value:
    """Bits as float64."""
    if is_single(kind):
        return decode(bits, kind).astype(np.float64)
    wide = np.asarray(bits).astype(np.int64)
    code = wide & kind.magnitude
    sizes = (code << (FRACTION - kind.fraction)).view(np.float64) * 2.0 ** (BIAS - kind.bias)
    if kind.infinities:
        sizes = where(code == kind.infinity, np.inf, sizes)
    sizes = where(is_nan(wide, kind), np.nan, sizes)
    return where(wide >> (kind.bits - 1) & 1, -sizes, sizes)


def encode(numbers: Value, kind: FloatType, saturate: bool = False) -> Value:
    """Numbers rounded to nearest even, as bits; every NaN the same one. saturate: past the greatest, the greatest."""
    if is_single(kind) and not saturate:
        single = np.asarray(numbers).astype(np.float32, copy=False)
        return where(np.isnan(single), np.int32(kind.nan), single.view(np.int32))
    x = np.asarray(numbers, np.float64)
    size = np.abs(where(np.isfinite(x), x, 0.0))
    unit = np.maximum(np.frexp(size)[1] - 1, 1 - kind.bias) - kind.fraction
    count = np.rint(np.ldexp(size, -unit)).astype(np.int64)
    code = where(size == 0, 0, ((unit + kind.fraction + kind.bias - 1).astype(np.int64) << kind.fraction) + count)
    beyond = kind.greatest if saturate else kind.infinity if kind.infinities else kind.nan
    code = where(np.isinf(x) | (code > kind.greatest), beyond, code)
    lost = np.isnan(x) | (code == kind.nan)
    return where(lost, kind.nan, where(np.signbit(x), code - (1 << (kind.bits - 1)), code))


def is_nan(x: Value, kind: FloatType) -> Value:
    """Whether bits are no number."""
    return (x & kind.magnitude) > (kind.infinity if kind.infinities else kind.greatest)


def odd(numbers: Value, error: Value) -> Value:
    """float64 sums, and the signs of what rounding lost, as the neighbour with an odd last bit: rounding once more to fewer bits is then exact."""
    words = np.asarray(numbers, np.float64).view(np.int64)
    step = where((error > 0) == (numbers > 0), 1, -1)
    inexact = (error != 0) & np.isfinite(error) & (words & 1 == 0)
    return where(inexact, words + step, words).view(np.float64)


def fused(a: Value, b: Value, c: Value, kind: FloatType) -> Value:
    """a * b + c rounded once; a product of two of the formats is exact in float64."""
    product, term = exact(a, kind) * exact(b, kind), exact(c, kind)
    total = product + term
    part = total - product
    return encode(odd(total, (product - (total - part)) + (term - part)), kind)


def from_integers(x: Value) -> Value:
    """int64 as float64, or its odd neighbour where 53 bits are too few."""
    sticky = where(x & 0x7FF, 0x800, 0) | (x & ~np.int64(0xFFF)) | (x & 0x800)
    return where(np.abs(x) < 1 << FRACTION, x, sticky).astype(np.float64)
