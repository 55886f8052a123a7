"""Diagnostics: one line, the source line, a caret under the place."""

import pickle
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.errors import LONGEST, Diagnostic, Source, Span, UserError, fail


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
