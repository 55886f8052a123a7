"""Statements: loops of one head, branches that parameters decide, names carried from iteration to iteration."""

from tests.tiny_semantics import read, result
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.text import unparse_semantics
from toolchain.isa.semantics.traverse import statements
from toolchain.spec import expr as ex


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


def test_names_are_carried_only_into_a_deeper_loop() -> None:
    lets = [s for s in statements(read("t = 0\nfor i in range(n):\n    u = i\n    t = max(t, u)\none[t % 4] = 1\n").body) if isinstance(s, ir.Let)]
    assert [(let.name, let.carried) for let in lets] == [("t", False), ("u", False), ("t", True)]


def test_several_values_are_assigned_at_once() -> None:
    assert result("x = a\ny = b\nx, y = swap(x, y)\nacc[0][o] = x * 1000 + y\n", a=7, b=9) == 9007


def test_a_procedure_stands_for_its_statements() -> None:
    spelt = "last = 1 + n\nfor q in range(1, last):\n    one[q % 4] = b\n"
    assert unparse_semantics(read("fill(1, n, b)\n")) == unparse_semantics(read(spelt))


def test_names_of_procedures_and_of_their_callers_are_apart() -> None:
    loops = [s for s in statements(read("last = 3\nfill_both(0, a)\none[last] = last\n").body) if isinstance(s, ir.For)]
    assert [loop.start for loop in loops] == [ex.Const(0), ex.Const(2)]
    (stored,) = [s.value for s in read("last = 3\nfill(0, 1, a)\none[3] = last\n").body if isinstance(s, ir.Store)]
    assert stored == ir.Var("last")


def test_a_number_decides_branches_of_a_procedure() -> None:
    assert len([s for s in statements(read("fill_both(1, a)\n").body) if isinstance(s, ir.For)]) == 1
    assert any(isinstance(s, ir.If) for s in read("fill_both(n, a)\n").body)
