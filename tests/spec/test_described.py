"""What goes wrong on the way from a description is a line at it."""

import pytest

from toolchain.spec.described import described
from toolchain.spec.errors import Source, Span, UserError, fail

WHERE = Span(Source("own.yaml", "operation: own"), 1, 12)


class ParseError(Exception):
    """Of a library, with no other base."""


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (KeyError("batch"), "'batch' is not known"),
        (AssertionError(), "AssertionError"),
        (ValueError("shapes differ"), "shapes differ (ValueError)"),
        (ZeroDivisionError("division by zero"), "division by zero (ZeroDivisionError)"),
        (RecursionError("maximum"), "it is nested too deeply, or needs itself"),
        (MemoryError(), "it takes more memory than there is"),
        (ParseError("line 3"), "line 3 (ParseError)"),
    ],
)
def test_exceptions_become_lines(raised: Exception, told: str) -> None:
    with pytest.raises(UserError) as found, described(WHERE, "the check of operation 'own'", (ParseError,)):
        raise raised
    assert found.value.diagnostics[0].headline().startswith(f"own.yaml:1:12: E1308 the check of operation 'own' fails: {told}; ")


def test_messages_get_a_place_where_they_have_none() -> None:
    with pytest.raises(UserError) as found, described(WHERE, "the check of kernel 'add'"):
        raise UserError(*fail("E0602", "#7 ALU reads acc[298]").diagnostics, *fail("E1305", "it differs", place="other").diagnostics)
    first, second = found.value.diagnostics
    assert first.headline() == "own.yaml:1:12: E0602 the check of kernel 'add': #7 ALU reads acc[298]"
    assert second.headline() == "other: E1305 it differs"


def test_what_is_no_fault_of_the_description_passes() -> None:
    with pytest.raises(KeyboardInterrupt), described(WHERE, "the check"):
        raise KeyboardInterrupt
