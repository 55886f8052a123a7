"""Walks meet everything once; linear parts multiply out to the expression they came from. Conditions lose what constants decide; what follows
from some fields holds for every value of the others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.test_evaluate import ARITHMETIC, NAMES
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import (
    access_mentions,
    addresses,
    expressions,
    fold,
    fold_condition,
    inline,
    linear,
    mentions,
    nodes,
    partial,
    statements,
)
from toolchain.spec import expr as ex
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant, evaluate
from toolchain.spec.expr import Binary, Choose, Compare, Const, Expr, Logic, Name
from toolchain.spec.load import load_machine
from toolchain.spec.model import ElementType, ScalarType, View

VIEW = View("m", "m", ElementType(ScalarType(True, 8), (4, 4)), 16, tuple(range(16)))
ACCESS = ir.Access(0, VIEW, (ir.Var("i"),), ("o", ir.Var("j")), (("core", ir.Var("k")),))

A, B, YES, NO = Name("a"), Name("b"), Const(1), Const(0)


def test_addresses_are_the_index_the_instance_and_the_fixed_lanes() -> None:
    assert addresses(ACCESS) == (ir.Var("i"), ir.Var("k"), ir.Var("j"))


def test_nodes_look_into_the_addresses_of_accesses() -> None:
    value = Binary("+", ir.Load(ACCESS), Const(1))
    assert list(nodes(value)) == [value, ir.Load(ACCESS), ir.Var("i"), ir.Var("k"), ir.Var("j"), Const(1)]


def test_statements_come_in_the_order_of_the_text() -> None:
    first, second, third = (ir.Let(name, Const(0)) for name in "abc")
    branch = ir.If(ir.Var("i"), (second,), (third,))
    loop = ir.For("i", Const(0), ir.FieldRef("n"), (first, branch))
    assert list(statements((loop,))) == [loop, first, branch, second, third]


def test_expressions_are_those_of_the_statement_itself() -> None:
    store = ir.Store(ACCESS, ir.Temp("t", ("o",)), False)
    assert expressions(store) == (*addresses(ACCESS), ir.Temp("t", ("o",)))
    assert expressions(ir.For("i", Const(0), Const(3), (store,))) == (Const(0), Const(3))
    assert expressions(ir.If(ir.Var("i"), (store,), ())) == (ir.Var("i"),)
    assert expressions(ir.Latch("r", ir.Var("i"))) == (ir.Var("i"),)


LEAVES = st.one_of(st.integers(-5, 5).map(ex.Const), st.sampled_from("ijp").map(ir.Var))
EXPRESSIONS = st.recursive(LEAVES, lambda inner: st.builds(ex.Binary, st.sampled_from("+-*"), inner, inner), max_leaves=8)


def value(e: Expr, names: dict[str, int]) -> int:
    def leaf(inner: Expr) -> int:
        assert isinstance(inner, ir.Var)
        return names[inner.name]

    return evaluate(e, leaf)


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.fixed_dictionaries({name: st.integers(-9, 9) for name in "ijp"}))
def test_linear_parts_add_up(e: Expr, names: dict[str, int]) -> None:
    parts = linear(e, ["i", "j"])
    if parts is None:
        return
    rest, coefficients = parts
    assert not any(mentions(part, ["i", "j"]) for part in (rest, *coefficients.values()))
    assert value(rest, names) + sum(names[name] * value(c, names) for name, c in coefficients.items()) == value(e, names)


def test_products_of_variables_are_not_linear() -> None:
    i, j = ir.Var("i"), ir.Var("j")
    assert linear(ex.Binary("*", i, j), ["i", "j"]) is None
    assert linear(ex.Binary("*", i, j), ["i"]) == (ex.Binary("*", j, ex.Const(0)), {"i": ex.Binary("*", j, ex.Const(1))})
    assert linear(ex.Binary("//", i, ex.Const(2)), ["i"]) is None


def test_addresses_inside_addresses() -> None:
    """A micro-op's index stands in the address of the element that it names."""
    machine = load_machine("vta")
    store = next(iter(machine_semantics(machine)["GEMM"].accesses))
    assert store.view.name == "uop"
    assert access_mentions(store, ["u"])
    read = ex.Binary("+", ir.ControlRead(store, "dst"), ir.Var("i"))
    assert mentions(read, ["u"])
    replaced = inline(read, {"u": ex.Const(7), "i": ir.Var("u")})
    assert isinstance(replaced, ex.Binary)
    assert isinstance(replaced.left, ir.ControlRead)
    assert replaced.left.access.index == (ex.Const(7),)
    assert replaced.right == ir.Var("u")


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (Logic("and", (A, NO)), NO),
        (Logic("or", (A, Const(7))), YES),
        (Logic("and", (YES, A, Const(3))), A),
        (Logic("or", (NO, A, B)), Logic("or", (A, B))),
        (Logic("and", (YES, Compare("<", Const(2), Const(3)))), YES),
        (Logic("or", (Logic("and", (A, NO)), NO)), NO),
        (A, A),
    ],
)
def test_conditions(condition: Expr, left: Expr) -> None:
    assert fold_condition(condition) == left


def test_what_has_no_value_stays() -> None:
    assert fold(Binary("*", Const(6), Const(7))) == Const(42)
    for e in (Binary("//", YES, NO), Binary("+", A, YES), Binary("<<", YES, Const(-1))):
        assert fold(e) == e


@settings(max_examples=60, deadline=None)
@given(st.builds(Choose, ARITHMETIC, ARITHMETIC, ARITHMETIC), st.sets(st.sampled_from(sorted(NAMES))), st.integers(-20, 20), st.integers(-20, 20))
def test_sound(tree: Expr, known: set[str], one: int, two: int) -> None:
    given_values = {name: NAMES[name] for name in known}
    found = partial(tree, given_values)
    for rest in (one, two):
        try:
            value = constant(tree, {**dict.fromkeys(NAMES, rest), **given_values})
        except UserError:
            continue
        assert found in (None, value)


def test_all_known_is_the_value() -> None:
    assert partial(Binary("*", Name("a"), Const(3)), {"a": 4}) == 12


def test_lazy_sides_settle() -> None:
    unknown = Name("x")
    assert partial(Logic("and", (unknown, Const(0))), {}) == 0
    assert partial(Logic("or", (unknown, Const(2))), {}) == 1
    assert partial(Choose(unknown, Const(5), Const(5)), {}) == 5
    assert partial(Choose(Const(0), unknown, Const(5)), {}) == 5
    assert partial(Binary("//", Const(1), Const(0)), {}) is None
