"""Values of expressions: Python's integers are the oracle; what has no value is refused.

No name of a machine may be a word of the languages.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import small
from tests.spec.test_render import TREES
from toolchain.isa.semantics.expressions import REDUCTIONS
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.evaluate import BUILT_IN, FUNCTIONS, LARGEST, RESERVED, constant, fold, substitute
from toolchain.spec.expr import Binary, Compare, Const, Expr, Logic, Name, Unary, parse_expr

NAMES = {"a": 3, "b": -5, "field_1": 0, "REG": 17}
ARITHMETIC = st.recursive(
    st.one_of(st.sampled_from(sorted(NAMES)).map(Name), st.integers(-9, 9).map(Const)),
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^"]), inner, inner),
        st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), inner, inner),
        st.builds(Unary, st.sampled_from(["-", "~", "not"]), inner),
        st.builds(lambda op, a, b: Logic(op, (a, b)), st.sampled_from(["and", "or"]), inner, inner),
    ),
    max_leaves=10,
)


def parse(text: str) -> Expr:
    source = Source("t", text)
    return parse_expr(text, lambda line, column: Span(source, line, column + 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-7 // 2", -4), ("-7 % 2", 1), ("-7 >> 1", -4), ("ceil_div(-7, 2)", -3), ("clog2(1)", 0), ("clog2(8)", 3), ("clog2(9)", 4),
        ("align(17, 16)", 32), ("min(3, 1, 2)", 1), ("max(5)", 5), ("abs(-4)", 4), ("not 3", 0), ("2 and 3", 1), ("0 or 0", 0),
        ("1 // 0 if 0 else 5", 5), ("0 and 1 // 0", 0), ("1 or 1 // 0", 1),
    ],
)  # fmt: skip
def test_values(text: str, value: int) -> None:
    assert constant(parse(text), {}) == value


@pytest.mark.parametrize(
    "text", ["1 // 0", "1 % 0", "1 << -1", "1 << 257", "1 >> -1", "ceil_div(1, 0)", "align(1, 0)", f"{1 << 250} * {1 << 250} * 1000000"]
)
def test_no_value(text: str) -> None:
    with pytest.raises(UserError, match="E0122"):
        constant(parse(text), {})


def test_result_is_bounded() -> None:
    assert constant(parse("(1 << 255) * (1 << 255)"), {}) < LARGEST


def outcome(e: Expr) -> int | str:
    try:
        return constant(e, NAMES)
    except UserError as error:
        return error.diagnostics[0].code


@settings(max_examples=60, deadline=None)
@given(ARITHMETIC)
def test_fold_keeps_the_value(tree: Expr) -> None:
    assert outcome(fold(tree)) == outcome(tree)
    assert outcome(fold(substitute(tree, NAMES, {}))) == outcome(tree)


@settings(max_examples=40, deadline=None)
@given(TREES)
def test_fold_is_idempotent(tree: Expr) -> None:
    assert fold(fold(tree)) == fold(tree)


def test_unknown_name_has_a_hint() -> None:
    with pytest.raises(UserError, match="did you mean 'depth'"):
        constant(parse("dept + 1"), {"depth": 1})


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_rule_cannot_take_a_word(word: str) -> None:
    with pytest.raises(UserError, match=f"E0145 the name '{word}' is a word of the language already"):
        small(("  cut: {type", f"  {word}: {{type"))


def test_every_function_that_the_semantics_know_is_a_word() -> None:
    assert {*BUILT_IN, *FUNCTIONS} >= {*REDUCTIONS, "dot", "wrap", "saturate"}
    assert {*BUILT_IN, *FUNCTIONS} <= RESERVED
