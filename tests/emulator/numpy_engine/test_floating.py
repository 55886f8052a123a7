"""Floating operations on arrays and on single integers."""

import numpy as np
import pytest

from tests.float_machine import SPECIAL
from toolchain.emulator.numpy_engine.floating import decode, encode, rounded
from toolchain.emulator.reference.floating import rounded as exactly
from toolchain.spec.exact_floats import decode as exact
from toolchain.spec.model import ScalarType
from toolchain.spec.model.types import F32

BITS = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.int32)


def test_bits_survive_but_for_nan() -> None:
    again = encode(decode(BITS, F32), F32)
    nan = np.isnan(BITS.view(np.float32))
    assert np.array_equal(again[~nan], BITS[~nan])
    assert set(again[nan].tolist()) == {F32.nan}


@pytest.mark.parametrize("rounding", ["half_even", "half_up", "half_away", "floor", "truncate"])
@pytest.mark.parametrize("kind", [ScalarType(True, 8), ScalarType(False, 8), ScalarType(True, 32), ScalarType(True, 64)], ids=str)
def test_rounding_is_exact(rounding: str, kind: ScalarType) -> None:
    with np.errstate(invalid="ignore"):
        found = rounded(decode(BITS, F32), rounding, kind)
    assert found.tolist() == [exactly(exact(bits, F32), rounding, kind) for bits in BITS.tolist()]
