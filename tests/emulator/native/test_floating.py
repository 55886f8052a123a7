"""The generated C of floating operations, and flags that would change them."""

import ctypes
import ctypes.util
import platform

import numpy as np
import pytest

from tests.float_machine import float_machine, float_program, float_state
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.emulator import native, reference
from toolchain.emulator.native.floating import floating
from toolchain.isa.c_source import CValue, Interval
from toolchain.isa.decode import decode
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


@pytest.mark.skipif(not native.available() or platform.machine() != "x86_64", reason="no C compiler, or other numbers of rounding modes")
def test_the_rounding_of_the_process_changes_nothing() -> None:
    library, upward = ctypes.CDLL(ctypes.util.find_library("m")), 0x800
    program = float_program(float_machine(), 3)
    one, other, order = float_state(program.machine, 3), float_state(program.machine, 3), issue_order(program)
    reference.run(program, one, order)
    native.run(program, other.copy(), order)
    library.fesetround(upward)
    native.run(program, other, order)
    left = library.fegetround()
    library.fesetround(0)
    assert left == upward
    assert all(np.array_equal(one.memories[name], other.memories[name]) for name in one.memories)


@pytest.mark.skipif(not native.available(), reason="no C compiler")
def test_fused_products_round_once() -> None:
    """(1 + 2**-23) * (1 - 2**-23) + c lies 2**-46 off a tie, which a double has lost."""
    machine, fused = float_machine(), 3 | 14 << 4 | 2 << 8 | 1 << 14  # ALU d=2 a=0 b=1
    program = decode(machine, [np.array([fused, 0], np.uint64).tobytes()])
    ties = 0
    for shift in range(-40, 40, 7):
        one, other = new_state(machine), new_state(machine)
        for state in (one, other):
            rows = state.memories["x"].view(np.float32).reshape(8, 8)
            rows[0], rows[1] = (1 + 2.0**-23) * 2.0**shift, 1 - 2.0**-23
            rows[2] = [sign * (2.0**24 + 2 * step) * 2.0**shift for sign in (1, -1) for step in range(4)]
        double = rows[0].astype(np.float64) * rows[1] + rows[2]
        reference.run(program, one, issue_order(program))
        native.run(program, other, issue_order(program))
        assert np.array_equal(one.memories["x"], other.memories["x"])
        ties += int((one.memories["x"].view(np.float32).reshape(8, 8)[2] != double.astype(np.float32)).sum())
    assert ties > 0, "rounding twice would pass too"


@pytest.mark.skipif(not native.available(), reason="no C compiler")
def test_contraction_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CFLAGS", "-ffp-contract=fast")
    program = float_program(float_machine(), 3, 24)
    one, other, order = float_state(program.machine, 3), float_state(program.machine, 3), issue_order(program)
    reference.run(program, one, order)
    native.run(program, other, order)
    assert all(np.array_equal(one.memories[name], other.memories[name]) for name in one.memories)
