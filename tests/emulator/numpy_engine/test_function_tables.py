"""Tables of functions: every value proved, and equal to the exact rounding."""

import pytest

from toolchain.emulator.numpy_engine.function_tables import function_table
from toolchain.spec.float_functions import FUNCTIONS, function_value
from toolchain.spec.model import FloatType
from toolchain.spec.model.types import BF16, F8E4M3, F8E5M2, F16


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [F16, BF16, F8E4M3, F8E5M2], ids=str)
def test_tables_are_rounded_exactly(name: str, kind: FloatType) -> None:
    table = function_table(name, kind).tolist()
    assert len(table) == 1 << kind.bits
    for code in range(0, 1 << kind.bits, 1 if kind.bits == 8 else 257):
        assert table[code] == function_value(name, code, kind), code
