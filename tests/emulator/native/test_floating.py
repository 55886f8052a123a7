"""The generated C of floating operations, and flags that would change them."""

import numpy as np
import pytest

from tests.float_machine import float_machine, float_program, float_state
from toolchain.analysis.order import issue_order
from toolchain.emulator import native, reference
from toolchain.emulator.native.floating import floating
from toolchain.isa.c_source import CValue, Interval
from toolchain.isa.semantics import ir
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Const
from toolchain.spec.model import ScalarType
from toolchain.spec.model.types import F32

VALUE = CValue("v", Interval(F32.low, F32.high), 32)
ZERO = Const(0)


def test_widths() -> None:
    assert floating(ir.ToFloat(ZERO, F32), [VALUE]).text == "tw_f32_from_i32(v)"
    assert floating(ir.ToFloat(ZERO, F32), [CValue("w", Interval(0, 1 << 40), 64)]).text == "tw_f32_from_i64(w)"
    assert floating(ir.ToInteger(ZERO, F32, "floor", ScalarType(True, 8)), [VALUE]) == CValue(
        "tw_into_i32(tw_round_floor(tw_f32_number(v)), -128, 127)", Interval(-128, 127), 32
    )
    assert floating(ir.Float("to_bits", F32, (ZERO,)), [VALUE]) == CValue("((int64_t)(uint32_t)v)", Interval(0, (1 << 32) - 1), 64)
    assert floating(ir.Float("lt", F32, (ZERO, ZERO)), [VALUE, VALUE]).range == Interval(0, 1)


@pytest.mark.skipif(not native.available(), reason="no C compiler")
@pytest.mark.parametrize("flag", ["-ffast-math", "-ffinite-math-only"])
def test_a_compiler_that_may_change_results_is_refused(flag: str) -> None:
    program = float_program(float_machine(), 0, 4)
    with pytest.raises(UserError, match="E0710"):
        native.run(program, float_state(program.machine, 0), issue_order(program), (flag,))


@pytest.mark.skipif(not native.available(), reason="no C compiler")
def test_contraction_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CFLAGS", "-ffp-contract=fast")
    program = float_program(float_machine(), 3, 24)
    one, other, order = float_state(program.machine, 3), float_state(program.machine, 3), issue_order(program)
    reference.run(program, one, order)
    native.run(program, other, order)
    assert all(np.array_equal(one.memories[name], other.memories[name]) for name in one.memories)
