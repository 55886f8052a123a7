"""Expressions: names resolved, functions in place of their calls, reductions closed over the lanes left."""

from tests.tiny_semantics import read, result
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex


def test_reductions_sum_what_the_statement_does_not_keep() -> None:
    (store,) = read("acc[0][o] = dot(par[0][r, o], par[1][r, c])\n").body
    assert isinstance(store, ir.Store)
    assert isinstance(store.value, ir.Reduce)
    assert store.value.over == ("r", "c")


def test_a_record_stays_the_element_it_was() -> None:
    text = "p = 0\nk = ctl[p]\np = 1\nctl[1] = dram.rec[0]\nacc[0][o] = k.lo\n"
    semantics = read(text)
    reads = [e for s in semantics.body if isinstance(s, ir.Store) for e in ex.walk(s.value) if isinstance(e, ir.ControlRead)]
    assert [e.access.index for e in reads] == [(ir.Var("k_index"),)]


def test_functions_see_their_arguments_only_and_call_each_other() -> None:
    assert result("x, y = split(a + 1)\nacc[0][o] = x * 100 + y\n", a=6) == 304
    assert result("acc[0][o] = double(double(a))\n", a=5) == 20


def test_local_names_of_functions_never_meet_those_of_the_caller() -> None:
    assert result("split_half = 50\nx, y = split(a)\nacc[0][o] = split_half + x\n", a=8) == 54


def test_tensor_data_may_pass_through_a_function() -> None:
    assert result("acc[0][o] = 3\nacc[0][o] = double(acc[0][o])\n") == 6


def test_narrowing_limits_of_zero_are_limits() -> None:
    (store,) = read("sat[0][o] = saturate(m, i8, 0, 100)\n").body
    assert isinstance(store, ir.Store)
    assert isinstance(store.value, ir.Narrow)
    assert (store.value.low, store.value.high) == (0, 100)


def test_membership_is_a_choice_of_equalities() -> None:
    assert [result("acc[0][o] = 1 if a in (2, 4) else 0\n", a=a) for a in (1, 2, 3, 4)] == [0, 1, 0, 1]
