"""Conditions lose what constants decide; what follows from some fields holds for every value of the others."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.test_evaluate import ARITHMETIC, NAMES
from toolchain.isa.semantics.partial import fold, fold_condition, partial
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Choose, Compare, Const, Expr, Logic, Name

A, B, YES, NO = Name("a"), Name("b"), Const(1), Const(0)


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
