"""Floating formats of 16 bits as numpy holds their numbers: f16 in float16, bf16 in float32 whose lower half is zero."""

from typing import Final

import numpy as np

from toolchain.spec.arrays import Array, Ints
from toolchain.spec.model.quantisation import Format

SINGLE = np.dtype(np.float32)
DTYPES: Final = {"f16": np.dtype(np.float16), "bf16": SINGLE}
"""The dtype that holds the numbers of a format."""
GREATEST: Final = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127")}
"""The greatest finite number."""
LOWER = 16
"""Bits of a float32 that bf16 has not."""


def rounded(x: Array, form: Format) -> Array:
    """Numbers as a format has the nearest ones, ties to even, in what holds them; every NaN is the one that arithmetic gives: quiet, without sign and
    payload. x: floating."""
    dtype = DTYPES[form]
    held = x.astype(dtype) if form == "f16" else _brain(x)
    return np.where(np.isnan(held), dtype.type(np.nan), held)


def _brain(x: Array) -> Array:
    single = x.astype(SINGLE)
    bits = single.view(np.uint32).astype(np.int64)
    nearer = _nearer(x, single, bits) if x.dtype == np.float64 else 0
    near = np.where(np.isnan(single), bits, bits + nearer + 0x7FFF + (bits >> LOWER & 1))
    return (near >> LOWER << LOWER).astype(np.uint32).view(SINGLE)


def _nearer(x: Array, single: Array, bits: Ints) -> Ints:
    """1 or -1 where float32 took a float64 to the middle between two numbers to one of which it is nearer, else 0: to the larger or the smaller
    magnitude."""
    middle = np.isfinite(single) & (bits & 0xFFFF == 0x8000)  # others do not count, infinities among them
    with np.errstate(invalid="ignore"):
        off = np.where(middle, np.abs(x) - np.abs(single.astype(np.float64)), 0)
    return np.sign(off).astype(np.int64)


def bits_of_held(array: Array) -> Array:
    """Signed integers of the bits that a format of 16 bits has; of the numbers that DTYPES hold."""
    if array.dtype != SINGLE:
        return array.view(np.int16)
    return (array.view(np.int32) >> LOWER).astype(np.int16)


def held_of_bits(bits: Ints, form: Format) -> Array:
    """The numbers with these bits, int64 or narrower of a sign; the inverse of `bits_of_held`."""
    if form == "f16":
        return bits.astype(np.int16).view(DTYPES[form])
    return (bits.astype(np.int32) << LOWER).view(SINGLE)
