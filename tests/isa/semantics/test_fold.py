"""Conditions lose what constants decide, and nothing else."""

import pytest

from toolchain.isa.semantics.fold import fold, fold_condition
from toolchain.spec.expr import Binary, Compare, Const, Expr, Logic, Name

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
