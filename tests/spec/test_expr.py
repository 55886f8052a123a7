"""The expression language: what it takes, what it refuses, and where.

What the expression language never holds is refused where it stands, before Python's parser sees it.
"""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.expr import (
    MAX_DIGITS,
    Binary,
    Choose,
    Compare,
    Const,
    Expr,
    Index,
    Logic,
    Member,
    Name,
    Unary,
    check_text,
    parse_expr,
    rewrite,
    walk,
)


def told(text: str) -> str:
    source = Source("t", text)
    with pytest.raises(UserError) as caught:
        check_text(text, lambda line, column: Span(source, line, column + 1))
    return caught.value.diagnostics[0].headline()


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        ("a\nb + 'x'", "t:2:5: E0121 text in quotes is not part of the expression language"),
        ("a ? b", "t:1:3: E0121 the character '?' is not part of the expression language"),
        ("a + é", "t:1:5: E0121 the character '\\xe9' is not part of the expression language"),
        ("1.5", "t:1:1: E0121 '1.5' is not an integer"),
        ("a + 1or b", "t:1:5: E0121 '1or' is not an integer"),
        ("007", "t:1:1: E0121 '007' is not an integer"),
        ("9" * (MAX_DIGITS + 1), f"t:1:1: E0121 '{'9' * MAX_DIGITS}' is not an integer"),
    ],
)
def test_refused_token(text: str, headline: str) -> None:
    assert told(text) == headline


@pytest.mark.parametrize("text", ["a != b", "0xFF_FF + 0b1_0 + 1_000", "x1 + a0b # a comment: 'quoted', 1.5, é", "9" * MAX_DIGITS])
def test_taken(text: str) -> None:
    check_text(text, lambda line, column: Span(Source("t", text), line, column + 1))


def parse(text: str) -> Expr:
    source = Source("t", text)
    return parse_expr(text, lambda line, column: Span(source, line, column + 1))


def test_shapes() -> None:
    assert parse("a + 1") == Binary("+", Name("a"), Const(1))
    assert parse("r[i].f") == Member(Index(Name("r"), (Name("i"),)), "f")
    assert parse("1 if a else 0") == Choose(Name("a"), Const(1), Const(0))
    assert parse("a < b <= 3") == Logic("and", (Compare("<", Name("a"), Name("b")), Compare("<=", Name("b"), Const(3))))
    assert parse("a not in (1, 2)") == Unary("not", Logic("or", (Compare("==", Name("a"), Const(1)), Compare("==", Name("a"), Const(2)))))


def test_span_is_the_place_of_the_part() -> None:
    tree = parse("a + (bb * 3)")
    assert isinstance(tree, Binary)
    assert tree.right.span is not None
    assert tree.right.span.column == 6


OUTSIDE = ["a / 2", "a ** 2", "a @ b", "lambda: 1", "f(x=1)", "[1]", "{1}", "(1, 2)", "a[1:2]", "f(*a)", "a := 1"]
OUTSIDE += ["1.5", "'x'", "1j", "a is b", "é", "a in ()", "a not in []", "a in b"]
UNREADABLE = ["", "a +", "(", "a b", "1or 2", "-" * 5000 + "1", "(" * 5000, "+".join("1" * 200), "a." * 100 + "b", "f(" * 70 + ")" * 70]


@pytest.mark.parametrize("text", [*OUTSIDE, *UNREADABLE])
def test_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert caught.value.diagnostics[0].code in ("E0120", "E0121")


@given(st.text(alphabet="ab01+-*/%<>()[].,: ifelsnotdr&|^~='\"\\\n#", max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        tree: Expr | None = parse(text)
    except UserError:
        tree = None
    if tree is not None:
        assert isinstance(ast.parse(text.strip(), mode="eval"), ast.Expression)


def test_rewrite_keeps_what_change_gives() -> None:
    tree = rewrite(parse("a + f(a, b)"), lambda e: Const(7) if e == Name("a") else None)
    assert [e.value for e in walk(tree) if isinstance(e, Const)] == [7, 7]
