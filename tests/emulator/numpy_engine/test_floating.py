"""Floating operations on arrays and on single integers."""

import numpy as np
import pytest

from tests.float_machine import SPECIAL
from toolchain.emulator.numpy_engine.floating import rounded
from toolchain.emulator.numpy_engine.formats import decode
from toolchain.emulator.reference.floating import rounded as exactly
from toolchain.spec.exact_floats import decode as exact
from toolchain.spec.model import ScalarType
from toolchain.spec.model.types import F32

BITS = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.int32)


@pytest.mark.parametrize("rounding", ["half_even", "half_up", "half_away", "floor", "truncate"])
@pytest.mark.parametrize("kind", [ScalarType(True, 8), ScalarType(False, 8), ScalarType(True, 32), ScalarType(True, 64)], ids=str)
def test_rounding_is_exact(rounding: str, kind: ScalarType) -> None:
    with np.errstate(invalid="ignore"):
        found = rounded(decode(BITS, F32), rounding, kind)
    assert found.tolist() == [exactly(exact(bits, F32), rounding, kind) for bits in BITS.tolist()]
