"""The semantics tree: equal where the text means the same, wherever it stands."""

from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.errors import Source, Span
from toolchain.spec.model import ElementType, ScalarType, View

VIEW = View("acc", "acc", ElementType(ScalarType(True, 32), (4,)), 16, (0, 4, 8, 12))
HERE, THERE = (Span(Source("a.yaml", "x"), 1, column) for column in (1, 2))


def test_places_in_the_text_take_no_part_in_comparisons() -> None:
    one, two = (ir.Access(0, VIEW, (ex.Const(1),), ("o",), span=span) for span in (HERE, THERE))
    assert one == two
    assert hash(one) == hash(two)
    assert ir.Let("x", ex.Const(1), span=HERE) == ir.Let("x", ex.Const(1), span=THERE)
    assert ir.Let("x", ex.Const(1)) != ir.Let("x", ex.Const(1), carried=True)


def test_leaves_with_a_value_of_their_own_in_every_lane() -> None:
    access = ir.Access(0, VIEW, (ex.Const(0),), ("o",))
    of_lanes = (ir.Load(access), ir.Temp("s", ("o",)), ir.Lane("o"))
    of_none = (ir.FieldRef("a"), ir.Var("x"), ir.Place("core"), ir.RegisterRead("cfg", ex.Const(0), "a"), ir.ControlRead(access, "lo"), ex.Const(3))
    assert all(map(ir.is_lane_leaf, of_lanes))
    assert not any(map(ir.is_lane_leaf, of_none))


def test_rewriting_reaches_operands_of_the_leaves_that_have_some() -> None:
    def seven(e: ex.Expr) -> ex.Expr | None:
        return ex.Const(7) if e == ir.Var("x") else None

    assert ex.rewrite(ir.RoundShift(ir.Var("x"), ir.Var("y"), "floor"), seven) == ir.RoundShift(ex.Const(7), ir.Var("y"), "floor")
    assert ex.rewrite(ir.Extreme("max", (ir.Var("x"), ir.Var("x"))), seven) == ir.Extreme("max", (ex.Const(7), ex.Const(7)))
    assert ex.rewrite(ir.Reduce("+", ir.Var("x"), ("o",)), seven) == ir.Reduce("+", ex.Const(7), ("o",))
