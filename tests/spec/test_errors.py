"""Diagnostics: one line, the source line, a caret under the place."""

from toolchain.spec.errors import Diagnostic, Source, Span, UserError, fail


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
