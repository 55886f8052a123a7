"""Address arithmetic is done in the outermost loop that it depends on, unless it might fault there."""

from tests.tiny_machine import tiny
from toolchain.emulator.native.function import new_function
from toolchain.emulator.native.levels import Nest
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr


def nest() -> Nest:
    machine = tiny("for i in range(n), j in range(n):\n    acc[i % 4][o] = j\n")
    semantics = machine_semantics(machine)["OP"]
    outer = semantics.body[0]
    assert isinstance(outer, ir.For)
    inner = outer.body[0]
    assert isinstance(inner, ir.For)
    return Nest(new_function(machine, semantics), (outer, inner))


ROW, COLUMN, A, B = ir.Var("i"), ir.Var("j"), ir.FieldRef("a"), ir.FieldRef("b")


def added(*parts: Expr) -> Expr:
    total = parts[0]
    for part in parts[1:]:
        total = ex.Binary("+", total, part)
    return total


def test_each_part_stands_at_its_depth() -> None:
    made = nest()
    text = made.writer().value(added(ex.Binary("*", A, B), ex.Binary("*", ROW, A), COLUMN)).text
    assert [len(lines) for lines in made.lines] == [1, 1, 0]
    assert "f_a * (int64_t)f_b" in made.lines[0][0]
    assert "v_i" in made.lines[1][0]
    assert "v_j" in text
    assert "v_i" not in text


def test_equal_parts_are_computed_once() -> None:
    made = nest()
    part = ex.Binary("*", A, B)
    made.writer().value(added(ex.Binary("*", part, COLUMN), part, COLUMN))
    assert [len(lines) for lines in made.lines] == [1, 0, 0]


def test_what_may_fault_stays_where_it_is_guarded() -> None:
    made = nest()
    quotient = ex.Binary("//", B, A)
    guarded = ex.Choose(ex.Compare("!=", ex.Binary("*", COLUMN, A), ex.Const(0)), quotient, COLUMN)
    assert "tw_floordiv" in made.writer().value(guarded).text
    assert not any("tw_floordiv" in line for lines in made.lines for line in lines)
    made.writer().value(ex.Binary("+", quotient, COLUMN))
    assert "tw_floordiv" in made.lines[0][-1]


def test_loops_around_a_body() -> None:
    made = nest()
    lines = made.text(["body;"])
    assert [line.count("for (") for line in lines] == [1, 1, 0, 0, 0]
    assert made.text(["body;"], start=1)[0].startswith("for (int64_t v_j")
