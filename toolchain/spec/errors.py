"""User errors: position, stable code, message and hint. A user's mistake never ends in a traceback."""

import re
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolchain.spec.reason import Reason


_BREAKS = ("\r\n", "\r", "\x85", "\u2028", "\u2029")
"""Characters that break a line in YAML, beside a line feed; `str.splitlines` knows more breaks and would count differently."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that break a line, drive a terminal, turn the direction of writing, or are none."""
WIDTH = 160
"""Characters of a source line that a message shows."""
LONGEST = 1200
"""Characters of a part of a message; a user's name may have many more."""


def one_line(text: str) -> str:
    """The text with escapes for characters that would leave its line, and without its middle if it is long."""
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST * 3 // 4]} ... {text[-LONGEST // 4 :]}"
    return _HIDDEN.sub(_escape, shown)


def lines(text: str) -> str:
    """Several lines with escapes for everything else that `one_line` replaces."""
    return _HIDDEN.sub(lambda found: found[0] if found[0] in "\n\t" else _escape(found), text)


def _escape(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode()


@dataclass(frozen=True)
class Source:
    """A text that a user wrote: the path to print and the text to quote."""

    path: str
    text: str = field(repr=False)

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), or an empty string past the end."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    @cached_property
    def lines(self) -> list[str]:
        """Every line without its break; whoever counts lines of a source counts these, so that messages quote the right one."""
        text = self.text
        for mark in _BREAKS:
            text = text.replace(mark, "\n")
        return text.split("\n")


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source; line and column count from 1."""

    source: Source
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message; `place` replaces the span where there is no text to point into (a byte offset, a file). more: lines below it.
    reason: the same as data, where a report groups it with others."""

    code: str
    message: str
    span: Span | None = None
    hint: str = ""
    place: str = ""
    severity: str = "error"
    more: str = ""
    reason: "Reason | None" = None

    def headline(self) -> str:
        """The message in one line: `file:line:col: CODE message; hint`."""
        where = one_line(str(self.span) if self.span else self.place)
        prefix = f"{where}: " if where else ""
        word = "" if self.severity == "error" else f"{self.severity}: "
        tail = f"; {one_line(self.hint)}" if self.hint else ""
        return f"{prefix}{self.code} {word}{one_line(self.message)}{tail}"

    def render(self) -> str:
        """The headline, then the source line with a caret under the place, or other lines that belong to it."""
        if self.span is None:
            return f"{self.headline()}\n{lines(self.more)}" if self.more else self.headline()
        quoted, column = _window(self.span.source.line(self.span.line), self.span.column)
        margin = "".join("\t" if c == "\t" else " " for c in quoted[: column - 1])
        return f"{self.headline()}\n{quoted}\n{margin}^"


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around the column, control characters made visible, and the column in it."""
    start = max(0, column - WIDTH // 2) if len(line) > WIDTH else 0
    head, tail = "..." if start else "", "..." if start + WIDTH < len(line) else ""
    return head + _CONTROL.sub("?", line[start : start + WIDTH]) + tail, column - start + len(head)


class UserError(Exception):
    """Raised for anything a user can mend; carries every diagnostic found, in source order."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(d.render() for d in diagnostics))
        self.diagnostics = diagnostics

    def only(self, codes: Collection[str]) -> bool:
        """Whether it says nothing but what has one of these codes."""
        return all(each.code in codes for each in self.diagnostics)

    def __reduce__(self) -> tuple[type["UserError"], tuple[Diagnostic, ...]]:
        """Copies that go to another process keep their diagnostics."""
        return type(self), self.diagnostics


def fail(code: str, message: str, span: Span | None = None, hint: str = "", place: str = "", more: str = "") -> UserError:
    """A UserError with one diagnostic, for `raise fail(...)`."""
    return UserError(Diagnostic(code, message, span, hint, place, more=more))


def closest(word: str, known: Iterable[str]) -> str:
    """The most similar known word, in whatever case, or an empty string."""
    import difflib  # 7 ms, so only where something is wrong

    names = {name.casefold(): name for name in sorted(known, reverse=True)}
    found = difflib.get_close_matches(word.casefold(), sorted(names), n=1, cutoff=0.6)
    return names[found[0]] if found else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the most similar known word, or an empty string."""
    found = closest(word, known)
    return f"did you mean '{found}'?" if found else ""


def placed(error: UserError, span: Span | None, subject: str = "") -> UserError:
    """The diagnostics; those without a place of their own get `span`, and begin with `subject`."""
    lead = f"{subject}: " if subject else ""
    return UserError(*(each if each.span or each.place else replace(each, span=span, message=lead + each.message) for each in error.diagnostics))


FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError, RecursionError, TypeError, ValueError)
"""Exceptions of code that is given numbers, names or shapes which contradict each other."""


@contextmanager
def described(span: Span | None, subject: str, also: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Everything inside follows from a description at `span`. subject: the step taken with it, for the message. also: other libraries' exceptions.

    Raises UserError E1308 in place of an exception that says that the description contradicts itself. Messages without a place of their own, such as
    those of a program that follows from the description, get this one.
    """
    try:
        yield
    except UserError as error:
        raise placed(error, span, subject) from error
    except (*FAULTS, *also) as error:
        raise fail(
            "E1308", f"{subject} fails: {_reason(error)}", span, hint="the names, shapes or numbers of the description do not fit each other"
        ) from error


def _reason(error: Exception) -> str:
    match error:
        case KeyError():
            return f"{error} is not known"
        case MemoryError():
            return "it takes more memory than there is"
        case RecursionError():
            return "it is nested too deeply, or needs itself"
        case _:
            return f"{error} ({type(error).__name__})" if str(error) else type(error).__name__
