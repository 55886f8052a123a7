"""Records of control memories: their bits, and residency with the least recently used content given up first."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.schedule.kernels.constants import constant_bytes, plan_residency
from toolchain.schedule.kernels.kernel import Constant
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Name
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")


def records(dst: int) -> Constant:
    fields = {"dst": Const(dst), "src": Binary("+", Name("x_slot"), Name("v")), "wgt": Name("u")}
    return Constant("window", "uop", {"u": Name("kh"), "v": Const(2)}, fields)


def test_records_are_the_machine_s_bit_fields_first_loop_slowest() -> None:
    words = np.frombuffer(constant_bytes(MACHINE, records(7), {"x_slot": 100, "kh": 3}), "<u4").tolist()
    assert words == [7 | (100 + v) << 11 | u << 22 for u in range(3) for v in range(2)]


def test_a_value_without_bits_is_refused() -> None:
    with pytest.raises(UserError, match="E1006 constant 'window' puts 2048 into 'dst', which holds u11"):
        constant_bytes(MACHINE, records(2048), {"x_slot": 0, "kh": 1})


@pytest.mark.parametrize(("kh", "told"), [(-1, "counts 'u' to -1"), (1 << 61, f"counts 'u' to {1 << 61}"), (8000, "has 16000 records")])
def test_more_records_than_the_memory_holds_are_refused_before_they_are_made(kh: int, told: str) -> None:
    with pytest.raises(UserError, match=f"E1004 constant 'window' {told}, and 'uop' holds 8192"):
        constant_bytes(MACHINE, records(7), {"x_slot": 0, "kh": kh})


def test_a_constant_of_no_records_is_empty() -> None:
    assert constant_bytes(MACHINE, records(7), {"x_slot": 0, "kh": 0}) == b""


def content(number: int, count: int) -> bytes:
    return bytes([number]) * (4 * count)


def test_what_fits_is_fetched_once_before_the_first_use() -> None:
    a, b = content(1, 3), content(2, 2)
    plan = plan_residency([[], [a], [b, a], [a]], 4, 5)
    assert plan.pool == a + b
    assert [[(f.slot, f.offset, f.count) for f in fetches] for fetches in plan.fetches] == [[], [(0, 0, 5)], [], []]
    assert plan.places == ((), (0,), (3, 0), (0,))


def test_the_least_recently_used_goes_first() -> None:
    a, b, c = (content(k, 2) for k in (1, 2, 3))
    plan = plan_residency([[a], [b], [a], [c], [a], [b]], 4, 4)
    assert [len(f) for f in plan.fetches] == [1, 1, 0, 1, 0, 1]
    assert plan.places == ((0,), (2,), (0,), (2,), (0,), (2,))


def test_one_step_s_constants_must_fit_together() -> None:
    with pytest.raises(UserError, match="E1004 the 6 records that one step names do not fit into 5"):
        plan_residency([[content(1, 3), content(2, 3)]], 4, 5)


def test_what_stands_in_the_way_is_fetched_again() -> None:
    a, b, c = content(1, 1), content(2, 2), content(3, 4)
    plan = plan_residency([[a], [b], [b, c]], 4, 6)
    assert [(f.slot, f.count) for f in plan.fetches[2]] == [(0, 2), (2, 4)]
    assert plan.places == ((0,), (1,), (0, 2))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=2, unique=True), min_size=1, max_size=30), st.integers(8, 24))
def test_every_step_finds_its_contents_where_it_is_told(uses: list[list[int]], depth: int) -> None:
    pieces = [content(k + 1, 1 + k % 4) for k in range(9)]
    plan = plan_residency([[pieces[k] for k in step] for step in uses], 4, depth)
    memory = bytearray(4 * depth)
    for step, fetches, places in zip(uses, plan.fetches, plan.places, strict=True):
        for f in fetches:
            memory[4 * f.slot : 4 * (f.slot + f.count)] = plan.pool[4 * f.offset : 4 * (f.offset + f.count)]
        assert len(memory) == 4 * depth
        for k, place in zip(step, places, strict=True):
            assert bytes(memory[4 * place : 4 * place + len(pieces[k])]) == pieces[k]
