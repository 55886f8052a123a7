"""What the expression language never holds is refused where it stands, before Python's parser sees it."""

import pytest

from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.tokens import MAX_DIGITS, check_text


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
def test_refused(text: str, headline: str) -> None:
    assert told(text) == headline


@pytest.mark.parametrize("text", ["a != b", "0xFF_FF + 0b1_0 + 1_000", "x1 + a0b # a comment: 'quoted', 1.5, é", "9" * MAX_DIGITS])
def test_taken(text: str) -> None:
    check_text(text, lambda line, column: Span(Source("t", text), line, column + 1))
