import re
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny_machine import DOUBLE, streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.emulator.reference.engine import run
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import statements
from toolchain.spec import expr as ex
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

SWAP = DOUBLE + "\ndef swap(x, y):\n    return y, x\n\ndef split(x):\n    half = double(x) // 4\n    return half, x - half\n"


def read(semantics: str) -> ir.Semantics:
    return machine_semantics(tiny(semantics, SWAP))["OP"]


def result(semantics: str, **fields: int) -> int:
    """What OP leaves in lane 0 of acc[0]."""
    machine = tiny(semantics, SWAP)
    program, state = decode(machine, streams([word(0, **fields)])), new_state(machine)
    run(program, state, np.array([0]))
    return int.from_bytes(state.memories["acc"][0, :4].tobytes(), "little", signed=True)


def test_read_once_for_a_machine() -> None:
    machine = tiny("pass\n")
    assert machine_semantics(machine) is machine_semantics(machine)
    assert machine_semantics(machine) is not machine_semantics(replace(machine))


def test_every_instruction_has_semantics_and_every_access_its_number() -> None:
    for name in ("vta", "dpuv3"):
        machine = load_machine(name)
        found = machine_semantics(machine)
        assert list(found) == [i.name for i in machine.instructions]
        for semantics in found.values():
            assert [access.number for access in semantics.accesses] == list(range(len(semantics.accesses)))


def test_loops_of_one_head_nest_in_order() -> None:
    (outer,) = read("for i in range(n), j in range(1, i + 2):\n    one[j % 4] = 1\n").body
    assert isinstance(outer, ir.For)
    (inner,) = outer.body
    assert isinstance(inner, ir.For)
    assert (outer.var, inner.var) == ("i", "j")
    assert (outer.start, inner.start) == (ex.Const(0), ex.Const(1))


def test_variables_of_two_loops_have_names_of_their_own() -> None:
    loops = [s for s in statements(read("for i in range(n):\n    one[0] = 1\nfor i in range(n):\n    one[1] = i\n").body) if isinstance(s, ir.For)]
    assert len({loop.var for loop in loops}) == 2


def test_parameters_decide_branches() -> None:
    assert read("if WAYS == 2 and a > 0:\n    one[0] = 1\n").body == read("if a > 0:\n    one[0] = 1\n").body
    assert read("if WAYS == 3 and a > 0:\n    one[0] = 1\n").body == ()
    assert read("if WAYS != 3 or a > 0:\n    one[0] = 1\nelse:\n    one[0] = 2\n").body == read("one[0] = 1\n").body


def test_reductions_sum_what_the_statement_does_not_keep() -> None:
    (store,) = read("acc[0][o] = dot(par[0][r, o], par[1][r, c])\n").body
    assert isinstance(store, ir.Store)
    assert isinstance(store.value, ir.Reduce)
    assert store.value.over == ("r", "c")


def test_names_are_carried_only_into_a_deeper_loop() -> None:
    lets = [s for s in statements(read("t = 0\nfor i in range(n):\n    u = i\n    t = max(t, u)\none[t % 4] = 1\n").body) if isinstance(s, ir.Let)]
    assert [(let.name, let.carried) for let in lets] == [("t", False), ("u", False), ("t", True)]


def test_several_values_are_assigned_at_once() -> None:
    assert result("x = a\ny = b\nx, y = swap(x, y)\nacc[0][o] = x * 1000 + y\n", a=7, b=9) == 9007


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


BASE = """\
k = ctl[b % 4]
p, q = split(a)
for i in range(n), j in range(1, 4):
    s[o]: wrap(i32) = dot(par[i % 4][r, o], par.core(1 - core)[j][r, c]) + cfg[b % 2].m * k.lo
    if i > 2:
        acc[p % 4][o] = clip(even(s[o], 3)) if m else low8(s[o])
sat[1] = sat[2] if a > 0 else 0
"""
WORDS = re.findall(r"[A-Za-z_0-9]+|[-+*/%<>=:,.()\[\]]|\n *| +", BASE)
PIECES = [*dict.fromkeys(WORDS), "way", "arg[1]", "num[0]", "~", "<<", "not ", "9" * 30, "lambda", "'", "sum(", "fields", "up(", "\t", "#"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WORDS) - 1), st.sampled_from(PIECES)), min_size=1, max_size=3))
def test_mutated_semantics_are_read_or_refused_with_a_place(changes: list[tuple[int, str]]) -> None:
    words = list(WORDS)
    for place, piece in changes:
        words[place] = piece
    assert outcome("".join(words)) in ("read", "refused")


def outcome(semantics: str) -> str:
    """What becomes of a text: `read`, `refused` with a place, or `lost` when an error says neither where nor which."""
    try:
        machine_semantics(tiny(semantics, SWAP))
    except UserError as error:
        return "refused" if all(d.code[:3] in ("E01", "E02") and d.span for d in error.diagnostics) else "lost"
    return "read"
