import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import tiny
from toolchain.analysis.state import locate, narrow, new_state, pack, read_bytes, record_field, unpack, wrap, write_bytes
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import RecordField, ScalarType

MACHINE = tiny("pass\n")


@settings(max_examples=35)
@given(st.integers(-30, 30), st.binary(min_size=8, max_size=8))
def test_what_is_written_past_the_end_of_a_ring_is_read_back(index: int, data: bytes) -> None:
    state, view = new_state(MACHINE), MACHINE.view["loop.wide"]
    element = locate(MACHINE.memory["loop"], view, 0, [index], "here")
    write_bytes(state, element, data)
    assert read_bytes(state, element) == data
    stored = state.memories["loop"][0]
    assert stored[(index + np.arange(8)) % 16].tobytes() == data


def test_a_view_lists_lanes_in_their_own_order() -> None:
    turned, plain = MACHINE.view["par.turned"], MACHINE.view["par"]
    data = bytes(range(12))
    assert unpack(plain, data) == list(range(12))
    assert np.array_equal(np.array(unpack(turned, data)).reshape(4, 3), np.arange(12).reshape(3, 4).T)
    assert pack(turned, unpack(turned, data)) == data


def test_outside_a_memory() -> None:
    with pytest.raises(UserError, match=r"^here: E0701 acc\[4\] is outside 'acc', which holds 64 bytes$"):
        locate(MACHINE.memory["acc"], MACHINE.view["acc"], 0, [4], "here")
    with pytest.raises(UserError, match="E0701"):
        locate(MACHINE.memory["dram"], MACHINE.view["dram.row"], 0, [253], "here")
    assert locate(MACHINE.memory["dram"], MACHINE.view["dram.row"], 0, [252], "here").start == 252


def test_record_fields_are_signed_as_declared() -> None:
    assert record_field(b"\xf5", RecordField("lo", 0, ScalarType(False, 3))) == 5
    assert record_field(b"\xf5", RecordField("hi", 3, ScalarType(True, 5))) == -2


@settings(max_examples=40)
@given(st.integers(), st.integers(1, 64), st.booleans())
def test_wrapping_keeps_the_residue(value: int, bits: int, signed: bool) -> None:
    kind = ScalarType(signed, bits)
    assert kind.low <= wrap(value, kind) <= kind.high
    assert (wrap(value, kind) - value) % (1 << bits) == 0


def test_overflow_that_nothing_declares_is_an_error() -> None:
    kind = ScalarType(True, 8)
    assert narrow(127, kind, "error", lambda: fail("E0705", "no")) == 127
    with pytest.raises(UserError, match="E0705"):
        narrow(128, kind, "error", lambda: fail("E0705", "no"))
    assert (narrow(200, kind, "wrap", AssertionError), narrow(-200, kind, "saturate", AssertionError)) == (-56, -128)
