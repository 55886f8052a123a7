"""Expression text: what is written back parses to the same tree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.spec.errors import Source, Span
from toolchain.spec.expr import BINARY, COMPARE, Binary, Call, Choose, Compare, Const, Expr, Index, Logic, Member, Name, Unary, parse_expr
from toolchain.spec.unparse import unparse

NAMES = st.sampled_from(["a", "b", "field_1", "REG"]).map(Name)


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    bases = st.one_of(NAMES, st.builds(Member, NAMES, st.just("m")))
    return st.one_of(
        st.builds(lambda op, ab: Binary(op, *ab), st.sampled_from(sorted(BINARY.values())), pairs),
        st.builds(lambda op, ab: Compare(op, *ab), st.sampled_from(sorted(COMPARE.values())), pairs),
        st.builds(Unary, st.sampled_from(["-", "~", "not"]), inner),
        st.builds(lambda op, values: Logic(op, tuple(values)), st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
        st.builds(Choose, inner, inner, inner),
        st.builds(lambda f, args: Call(f, tuple(args)), bases, st.lists(inner, max_size=3)),
        st.builds(lambda b, index: Index(b, tuple(index)), bases, st.lists(inner, min_size=1, max_size=2)),
        st.builds(Member, inner, st.just("m")),
    )


TREES = st.recursive(st.one_of(NAMES, st.integers(0, 1 << 70).map(Const)), _grow, max_leaves=12)


def parse(text: str) -> Expr:
    source = Source("t", text)
    return parse_expr(text, lambda line, column: Span(source, line, column + 1))


@settings(max_examples=80, deadline=None)
@given(TREES)
def test_round_trip(tree: Expr) -> None:
    assert parse(unparse(tree)) == tree


def test_brackets_only_where_needed() -> None:
    for text in (
        "a + b * c",
        "(a + b) * c",
        "a - (b - c)",
        "a if b else c if d else e",
        "not a and b or c",
        "-(a + 1)",
        "f(a, b)[1].m",
        "(a < b) < c",
    ):
        assert unparse(parse(text)) == text


@pytest.mark.parametrize("text", ["a in (1,)", "a in [b]", "a not in (1,)", "a in (1, 2)", "a < b in (1, 2)"])
def test_membership_is_written_as_comparisons(text: str) -> None:
    assert parse(unparse(parse(text))) == parse(text)


def test_negative_constant_of_a_substitution() -> None:
    assert unparse(Binary("-", Name("a"), Const(-3))) == "a - -3"


def test_leaf_writes_other_nodes() -> None:
    class Odd(Expr):
        pass

    assert unparse(Binary("*", Odd(), Const(2)), lambda e: type(e).__name__) == "Odd * 2"
