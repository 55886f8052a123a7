"""Diagnostics: one line, the source line, a caret under the place.

Spelling hints.

What goes wrong on the way from a description is a line at it.
"""

import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.errors import LONGEST, Diagnostic, Source, Span, UserError, closest, described, fail, nearest


def test_render_with_a_tab_before_the_place() -> None:
    source = Source("a.yaml", "x: 1\n\ty: two\n")
    error = fail("E0107", "unknown name 'two'", Span(source, 2, 5), "did you mean 'too'?")
    assert str(error) == "a.yaml:2:5: E0107 unknown name 'two'; did you mean 'too'?\n\ty: two\n\t   ^"


def test_place_stands_for_a_missing_span() -> None:
    assert Diagnostic("E0001", "no file", place="x.bin").render() == "x.bin: E0001 no file"


def test_warning_says_so() -> None:
    assert Diagnostic("E0412", "differs", severity="warning").headline() == "E0412 warning: differs"


def test_lines_break_where_yaml_breaks_them() -> None:
    source = Source("a", "one\r\ntwo\rthree\x85four\u2028five\x0bsix")
    assert [source.line(n) for n in range(7)] == ["", "one", "two", "three", "four", "five\x0bsix", ""]


def test_all_diagnostics_are_told() -> None:
    error = UserError(Diagnostic("E0001", "a"), Diagnostic("E0002", "b"))
    assert str(error) == "E0001 a\nE0002 b"


def test_a_long_line_is_shown_around_the_place() -> None:
    source = Source("a", "x" * 500 + "HERE" + "y" * 500)
    _, quoted, caret = fail("E0101", "bad", Span(source, 1, 501)).diagnostics[0].render().split("\n")
    assert len(quoted) < 170
    assert quoted[caret.index("^") :].startswith("HERE")
    assert quoted.startswith("...x")
    assert quoted.endswith("y...")


def test_control_characters_are_not_printed() -> None:
    error = fail("E0101", "bad", Span(Source("a", "a\x1b[31mb"), 1, 3))
    assert str(error).split("\n")[1] == "a?[31mb"


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_a_headline_is_one_line_whatever_users_call_things(name: str, place: str, hint: str) -> None:
    found = Diagnostic("E0907", f"node '{name}' is wrong", hint=hint, place=place).render()
    assert len(found.splitlines()) == 1
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in found)
    found.encode()


def test_hidden_characters_are_written_out() -> None:
    assert Diagnostic("E0907", "node 'a\nb\x1b[31m\u202ec'").headline() == "E0907 node 'a\\nb\\x1b[31m\\u202ec'"


def test_kilobytes_of_a_name_are_not_quoted() -> None:
    found = Diagnostic("E0907", f"node '{'n' * 50_000}' is wrong").headline()
    assert len(found) < LONGEST + 20
    assert found.startswith("E0907 node 'nnn")
    assert found.endswith("nnn' is wrong")


def test_further_lines_stand_below() -> None:
    error = fail("E1204", "not exact", place="a.bundle", more="tensor  a\x07\n\tb")
    assert str(error) == "a.bundle: E1204 not exact\ntensor  a\\x07\n\tb"


def test_errors_reach_other_processes_whole() -> None:
    span = Span(Source("a.yaml", "x: 1\n"), 1, 1)
    error = UserError(Diagnostic("E0101", "first", span, "mend it"), Diagnostic("E0102", "second"))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.diagnostics == error.diagnostics


def test_nearest() -> None:
    assert nearest("laod", ["load", "store"]) == "did you mean 'load'?"
    assert closest("LOAD", ["load", "store"]) == "load"
    assert nearest("zzz", ["load", "store"]) == nearest("x", []) == ""


def test_order_of_the_known_words_does_not_matter() -> None:
    words = ["rows_a", "rows_b", "rows_c"]
    assert closest("rows", words) == closest("rows", list(reversed(words)))


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
