"""Values that an iteration hands to the next."""

from tests.tiny_machine import tiny
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.flow import assigned, carried, exposed
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import statements


def body(semantics: str) -> tuple[ir.Stmt, ...]:
    return machine_semantics(tiny(semantics))["OP"].body


def loop(semantics: str) -> ir.For:
    return next(stmt for stmt in statements(body(semantics)) if isinstance(stmt, ir.For))


def test_sums_and_other_running_names() -> None:
    text = "t = 0\nu = 0\nfor i in range(n):\n    t = t + i\n    u = max(u, i)\n    w = i\n    one[w % 4] = 1\nacc[t % 4][o] = u\n"
    assert carried(loop(text).body) == ([("t", False)], [("u", False)])


def test_a_name_set_anew_in_every_iteration_is_not_carried() -> None:
    assert carried(loop("for i in range(n):\n    t = i\n    t = t + 1\n    one[t % 4] = 1\n").body) == ([], [])


def test_inner_loop_variables_are_not_carried() -> None:
    assert carried(loop("for i in range(n), j in range(i, n):\n    one[j % 4] = 1\n").body) == ([], [])


def test_temporaries_summed_in_inner_loops() -> None:
    text = "for i in range(n):\n    s[o]: wrap(i32) = 0\n    for j in range(n):\n        s[o] += sat[0][o]\n    acc[0][o] = s[o]\n"
    outer = loop(text)
    inner = next(stmt for stmt in outer.body if isinstance(stmt, ir.For))
    assert carried(outer.body) == ([], [])
    assert carried(inner.body) == ([("s", True)], [])


def test_a_sum_that_decides_something_is_no_plain_sum() -> None:
    text = "t = 0\nfor i in range(n):\n    if t < 5:\n        t = t + i\none[t % 4] = 1\n"
    assert carried(loop(text).body) == ([], [("t", False)])


def test_exposed_through_branches() -> None:
    text = "t = 0\nif a > 0:\n    t = 1\nelse:\n    t = 2\none[t % 4] = 1\n"
    statements = body(text)
    assert exposed(statements[1:]) == (frozenset(), {("t", False)})
    assert exposed(statements[2:]) == ({("t", False)}, frozenset())


def test_everything_assigned() -> None:
    assert assigned(body("for i in range(n):\n    s[o]: i8 = 1\n    t = i\n    acc[t % 4][o] = s[o]\n")) == {("i", False), ("s", True), ("t", False)}
