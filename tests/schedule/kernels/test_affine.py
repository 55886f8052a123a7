"""An affine expression is its value in the first round and its growth in each loop; anything else has no growth."""

from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.schedule.kernels.affine import beginning, growth, minus, plus, times
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Name, Unary

LEAVES = st.one_of(st.integers(-3, 3).map(Const), st.sampled_from("ijpq").map(Name))


def _larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Binary, st.sampled_from("+-*"), inner, inner),
        st.builds(Unary, st.just("-"), inner),
        st.tuples(inner, inner).map(lambda both: Call(Name("max"), both)),
        st.tuples(inner, inner, inner).map(lambda three: Choose(Compare("<", three[0], Const(1)), three[1], three[2])),
    )


EXPRESSIONS = st.recursive(LEAVES, _larger, max_leaves=8)
NUMBERS = st.fixed_dictionaries({name: st.integers(-4, 4) for name in "ijpq"})


@settings(max_examples=70, deadline=None)
@given(EXPRESSIONS, NUMBERS)
def test_beginning_and_growth_add_up(expr: Expr, names: dict[str, int]) -> None:
    parts = growth(expr, "i"), growth(expr, "j")
    first = constant(beginning(expr, ("i", "j")), names)
    assert first == constant(expr, {**names, "i": 0, "j": 0})
    if parts[0] is not None and growth(parts[0], "j") == Const(0) and parts[1] is not None:
        by_i, by_j = (constant(part, names) for part in parts if part is not None)
        assert constant(expr, names) == first + names["i"] * by_i + names["j"] * by_j


def test_what_grows_unevenly() -> None:
    i = Name("i")
    for expr in (times(i, i), Call(Name("max"), (i, Const(3))), Choose(i, Const(1), Const(2)), Binary("//", i, Const(2))):
        assert growth(expr, "i") is None
        assert growth(expr, "j") == Const(0)


def test_sums_and_products_of_numbers_are_numbers() -> None:
    p = Name("p")
    assert plus(Const(2), times(Const(3), Const(4))) == Const(14)
    assert (plus(p, Const(0)), times(p, Const(1)), times(p, Const(0)), minus(p, Const(0))) == (p, p, Const(0), p)
