from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.emulator.reference.engine import Reference, run
from toolchain.emulator.reference.frame import round_shift
from toolchain.emulator.reference.scalar import value_of
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.errors import UserError
from toolchain.spec.model import ScalarType

NOTHING = decode(tiny("pass\n"), streams([word(0)]))
VALUES = st.integers(-(1 << 70), 1 << 70) | st.integers(-40, 40)


def exact(value: int, amount: int, rounding: str) -> int:
    """The definition, on fractions."""
    quotient = Fraction(value, 1 << amount)
    below = floor(quotient)
    if rounding == "floor" or quotient == below:
        return below
    if quotient - below != Fraction(1, 2):
        return below if quotient - below < Fraction(1, 2) else below + 1
    return {"half_up": below + 1, "half_even": below + below % 2, "half_away": below + (value > 0)}[rounding]


@settings(max_examples=90)
@given(VALUES, st.integers(0, 63) | st.integers(1, 4), st.sampled_from(["half_up", "half_even", "half_away", "floor"]))
def test_rounding_shifts_are_exact(value: int, amount: int, rounding: str) -> None:
    assert round_shift(value, amount, rounding) == exact(value, amount, rounding)


TIES = {
    "half_up": [-1, -1, 0, 0, 1, 1, 2],
    "half_even": [-2, -1, 0, 0, 0, 1, 2],
    "half_away": [-2, -1, -1, 0, 1, 1, 2],
    "floor": [-2, -1, -1, 0, 0, 1, 1],
}


@pytest.mark.parametrize(("rounding", "expected"), [*TIES.items()])
def test_ties(rounding: str, expected: list[int]) -> None:
    assert [round_shift(value, 1, rounding) for value in range(-3, 4)] == expected


@settings(max_examples=60)
@given(VALUES, st.sampled_from(["wrap", "saturate"]), st.integers(1, 64), st.booleans())
def test_narrowing_is_the_residue_or_the_nearest(value: int, overflow: str, bits: int, signed: bool) -> None:
    kind = ScalarType(signed, bits)
    frame = Reference(NOTHING).frames(0, new_state(NOTHING.machine))[0]
    result = value_of(ir.Narrow(ex.Const(value), kind, overflow, kind.low, kind.high))(frame)
    assert kind.low <= result <= kind.high
    if overflow == "wrap":
        assert (result - value) % (1 << bits) == 0
    else:
        assert abs(result - value) == min(abs(kind.low - value), abs(kind.high - value)) or result == value


def engine_value(text: str, **fields: int) -> int:
    """What OP leaves in lane 0 of acc[0] when it computes `text`."""
    machine = tiny(f"acc[0][o] = {text}\n")
    program, state = decode(machine, streams([word(0, **fields)])), new_state(machine)
    run(program, state, np.array([0]))
    return int.from_bytes(state.memories["acc"][0, :4].tobytes(), "little", signed=True)


@settings(max_examples=30)
@given(st.integers(-128, 127), st.integers(0, 63), st.integers(-2048, 2047))
def test_operators_floor_as_python_does(a: int, b: int, m: int) -> None:
    assert engine_value("a // (b + 1) * 1000 + m % (b + 1) + (m >> b) + (a & b) - (a | b) + (m ^ a)", a=a, b=b, m=m) == (
        a // (b + 1) * 1000 + m % (b + 1) + (m >> b) + (a & b) - (a | b) + (m ^ a)
    )


def test_comparisons_and_logic_give_0_or_1() -> None:
    assert engine_value("(a < 0) + (a <= 0) + (a == -5) + (a != 3) + (not a) + (a and b) + (0 or b)", a=-5, b=9) == 6


def test_the_second_part_of_and_may_be_illegal() -> None:
    assert engine_value("1 if b < 4 and acc[b][0] == 0 else 2", b=50) == 2


def test_division_by_zero_is_an_error_at_run_time_too() -> None:
    program = decode(tiny("pass\n"), streams([word(0)]))
    frame = Reference(program).frames(0, new_state(program.machine))[0]
    with pytest.raises(UserError, match=r"#0 OP at 0x0 of stream 0: E0704 division by zero"):
        value_of(ex.Binary("//", ex.Const(1), ex.Const(0)))(frame)
    with pytest.raises(UserError, match=r"E0703 a shift by -1"):
        value_of(ex.Binary("<<", ex.Const(1), ex.Const(-1)))(frame)
