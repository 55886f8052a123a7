"""Intervals: the width that holds them, and operations that hold every result."""

import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.isa.c_source.interval import Interval, binary

INTERVALS = st.tuples(st.integers(-40, 40), st.integers(0, 30)).map(lambda t: Interval(t[0], t[0] + t[1]))
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
BITWISE = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift}


@pytest.mark.parametrize(("low", "high", "bits"), [(0, 0, 32), (-(1 << 31), (1 << 31) - 1, 32), (0, 1 << 31, 64), (-(1 << 31) - 1, 0, 64)])
def test_width(low: int, high: int, bits: int) -> None:
    assert Interval(low, high).bits == bits
    assert Interval(low << 32, (high + 1 << 32) - 1).bits == 2 * bits


@settings(max_examples=60, deadline=None)
@given(INTERVALS, INTERVALS, st.sampled_from(sorted(OPERATORS | BITWISE)), st.data())
def test_every_result_is_inside(a: Interval, b: Interval, op: str, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(a.low, a.high)), data.draw(st.integers(b.low, b.high))
    if (op in ("//", "%") and y == 0) or (op in ("<<", ">>") and y < 0):
        return
    assert binary(op, a, b).low <= (OPERATORS | BITWISE)[op](x, y) <= binary(op, a, b).high


def test_meet_of_nothing_keeps_what_is_proved() -> None:
    assert Interval(0, 3).meet(Interval(2, 9)) == Interval(2, 3)
    assert Interval(0, 3).meet(Interval(5, 9)) == Interval(5, 9)
