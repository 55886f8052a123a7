"""Names that are taken and assigned, the lanes that reductions sum over, and where accesses lead."""

import pytest

from tests.tiny_machine import tiny
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.access import Scope, close_reductions, copied_value, declare_lane, dotted, free_lanes, lane_value, view_of
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec import expr as ex
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.expr import Expr

MACHINE = tiny("pass\n")
HERE = Span(Source("m.yaml", "x"), 1, 1)


def scope() -> Scope:
    return Scope(MACHINE, MACHINE.instruction["OP"])


def temp(*lanes: str) -> ir.Temp:
    return ir.Temp("s", lanes)


def element(view: str, lanes: tuple[str, ...] | None) -> ir.Access:
    return ir.Access(0, MACHINE.view[view], (ex.Const(0),), lanes)


@pytest.mark.parametrize("name", ["WAYS", "sat", "core", "a"])
def test_names_of_the_machine_and_of_fields_are_taken(name: str) -> None:
    with pytest.raises(UserError, match="E0205"):
        scope().require_new(name, HERE)


def test_unique_names_avoid_each_other() -> None:
    own = scope()
    assert [own.unique("i"), own.unique("i"), own.unique("i")] == ["i", "i_1", "i_2"]
    assert own.unique("a") not in ("a", "i")


def test_a_name_is_carried_where_a_deeper_loop_assigns_it_again() -> None:
    own = scope()
    assert own.let("t", HERE) == ("t", False)
    own.depth = 1
    assert own.let("t", HERE) == ("t", True)
    assert own.let("u", HERE) == ("u", False)
    assert own.let("u", HERE) == ("u", False)


def test_a_name_is_read_only_once_every_path_has_assigned_it() -> None:
    own = scope()
    own.let("t", HERE)
    own.require_assigned("t", HERE)
    own.assigned = frozenset()
    with pytest.raises(UserError, match="E0213"):
        own.require_assigned("t", HERE)


def test_a_lane_has_one_extent() -> None:
    own = scope()
    declare_lane(own, "o", 4, HERE)
    declare_lane(own, "o", 4, HERE)
    with pytest.raises(UserError, match="E0206 lane 'o' is 4 long elsewhere and 3 here"):
        declare_lane(own, "o", 3, HERE)


def test_a_reduction_sums_the_lanes_that_the_statement_does_not_keep() -> None:
    product = ex.Binary("*", temp("r", "o"), temp("r", "c"))
    closed = close_reductions(ir.Reduce("+", product, ()), ["o"])
    assert closed == ir.Reduce("+", product, ("r", "c"))
    assert free_lanes(closed) == ["o"]
    with pytest.raises(UserError, match="E0214 this reduces over nothing"):
        close_reductions(ir.Reduce("+", temp("o"), ()), ["o"])


def test_a_value_has_no_lane_left_and_no_whole_element() -> None:
    assert lane_value(temp("o"), ["o"], HERE) == temp("o")
    with pytest.raises(UserError, match="E0206 lane 'r' is neither written nor reduced"):
        lane_value(temp("r"), ["o"], HERE)
    with pytest.raises(UserError, match="E0215"):
        lane_value(ir.Load(element("sat", None)), ["o"], HERE)


def test_only_elements_of_the_same_size_and_zero_are_copied() -> None:
    target, same, other = element("sat", None), ir.Load(element("loop", None)), ir.Load(element("acc", None))
    choice = ex.Choose(ir.FieldRef("a"), same, ex.Const(0))
    assert copied_value(choice, target) is choice
    for value in (other, ex.Const(1), ex.Choose(ir.FieldRef("a"), same, other)):
        with pytest.raises(UserError, match="E0215"):
            copied_value(value, target)


@pytest.mark.parametrize(("text", "view"), [("dram.row[a]", "dram.row"), ("par.core(1)[a][r, c]", "par"), ("a + 1", None), ("absent[0]", None)])
def test_the_view_that_an_expression_indexes(text: str, view: str | None) -> None:
    found = view_of(scope(), parsed(text))
    assert (found.name if found else None) == view


def test_chains_of_members_have_a_dotted_name() -> None:
    assert [dotted(parsed(text)) for text in ("a", "a.b.c", "a[0].b")] == ["a", "a.b.c", ".b"]


def test_an_access_names_its_index_its_instance_and_its_lanes() -> None:
    (store,) = machine_semantics(tiny("par.core(1 - core)[b % 4][r, 2] = 1\n"))["OP"].body
    assert isinstance(store, ir.Store)
    access = store.access
    assert access.index == (ex.Binary("%", ir.FieldRef("b"), ex.Const(4)),)
    assert access.at == (("core", ex.Binary("-", ex.Const(1), ir.Place("core"))),)
    assert access.lanes == ("r", ex.Const(2))


def parsed(text: str) -> Expr:
    return ex.parse_expr(text, lambda _line, _column: HERE)
