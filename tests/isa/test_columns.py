"""Columns mean what the scalar evaluator means, row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.isa.columns import evaluate_columns, field_leaf
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.evaluate import evaluate
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Name, Unary, parse_expr

SMALL = st.integers(-70, 70)
WIDE = st.integers(-(1 << 40), 1 << 40)


def read(text: str) -> Expr:
    return parse_expr(text, lambda line, column: Span(Source("test", text), line, column + 1))


def extend(sub: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Unary, st.sampled_from(["-", "~", "not"]), sub),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "//", "%", "<<", ">>", "&", "|", "^"]), sub, sub),
        st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), sub, sub),
        st.builds(Logic, st.sampled_from(["and", "or"]), st.lists(sub, min_size=2, max_size=3).map(tuple)),
        st.builds(Choose, sub, sub, sub),
        st.builds(Call, st.sampled_from(["min", "max"]).map(Name), st.lists(sub, min_size=1, max_size=3).map(tuple)),
        st.builds(Call, st.sampled_from(["ceil_div", "align"]).map(Name), st.tuples(sub, sub)),
        st.builds(Call, st.sampled_from(["abs", "clog2"]).map(Name), st.tuples(sub)),
    )


EXPRESSIONS = st.recursive(st.one_of(st.builds(Const, SMALL), st.sampled_from("abw").map(Name)), extend, max_leaves=12)


def scalar(expr: Expr, row: dict[str, int]) -> int | None:
    """The scalar evaluator's answer; None where it refuses."""
    try:
        return evaluate(expr, lambda leaf: row[leaf.id] if isinstance(leaf, Name) else 0)
    except UserError:
        return None


@settings(max_examples=80, deadline=None)
@given(EXPRESSIONS, st.lists(st.tuples(SMALL, SMALL, WIDE), min_size=1, max_size=6))
def test_equals_the_scalar_evaluator(expr: Expr, rows: list[tuple[int, int, int]]) -> None:
    columns = {name: np.array([row[i] for row in rows], np.int64) for i, name in enumerate("abw")}
    expected = [scalar(expr, dict(zip("abw", row, strict=True))) for row in rows]
    exact = [value for value in expected if value is not None and -(1 << 63) <= value < 1 << 63]
    try:
        found = evaluate_columns(expr, field_leaf(columns), len(rows))
    except UserError:
        assert len(exact) < len(rows)
        return
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize("text", ["1 // a if a else 7", "a and 5 // a", "a == 0 or 5 // a", "7 if a == 0 else (2 if 9 % a else 3)"])
def test_the_untaken_side_is_not_evaluated(text: str) -> None:
    values = [0, 1, 3, -2]
    found = evaluate_columns(read(text), field_leaf({"a": np.array(values, np.int64)}), 4)
    assert found.tolist() == [scalar(read(text), {"a": a}) for a in values]


def test_rows_reach_the_leaf() -> None:
    seen: list[list[int] | None] = []

    def leaf(_: Expr, rows: np.ndarray | None) -> np.ndarray:
        seen.append(None if rows is None else rows.tolist())
        return np.arange(4)[slice(None) if rows is None else rows]

    assert evaluate_columns(read("x if x > 2 else (1 if x > 0 else 0)"), leaf, 4).tolist() == [0, 1, 1, 3]
    assert seen == [None, [3], [0, 1, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a // (b - 2)", "test:1:1: E0122 cannot evaluate 5 // 0 for row 1"),
        ("1 << (a - 6)", "test:1:1: E0122 cannot evaluate 1 << -2 for row 0"),
        ("1 << a << 62", "test:1:1: E0122 the result does not fit 64 bits"),
        ("c", "test:1:1: E0107 unknown name 'c'"),
        ("a.b", "test:1:1: E0121 this is not allowed here"),
        ("clog2(a, b)", "test:1:1: E0123 clog2 takes 1 argument, not 2"),
    ],
)
def test_errors(text: str, message: str) -> None:
    leaf = field_leaf({"a": np.array([4, 5], np.int64), "b": np.array([1, 2], np.int64)})
    with pytest.raises(UserError) as caught:
        evaluate_columns(read(text), leaf, 2, "row {}".format)
    assert caught.value.diagnostics[0].headline() == message


def test_no_rows_cost_nothing() -> None:
    assert evaluate_columns(read("a // 0 + max(a, 1)"), field_leaf({"a": np.empty(0, np.int64)}), 0).tolist() == []


def test_the_least_number_over_minus_one_is_past_64_bits() -> None:
    columns = {"a": np.array([-(1 << 63), 8], np.int64), "b": np.array([-1, -2], np.int64)}
    with pytest.raises(UserError, match="E0122 the result does not fit 64 bits"):
        evaluate_columns(read("a // b"), field_leaf(columns), 2)
    assert evaluate_columns(read("a // b - (b == -1)"), field_leaf(columns), 2).tolist() == [(1 << 63) - 1, -4]


def test_a_shift_that_no_row_takes_may_be_negative() -> None:
    assert evaluate_columns(read("a << -5"), field_leaf({"a": np.zeros(0, np.int64)}), 0).tolist() == []
