"""Gathers what is wrong with a file, so that several mistakes are told at once."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.yaml_nodes import merged

T = TypeVar("T")
S = TypeVar("S")
MAX_REPORTED = 20


class Findings:
    """Errors of steps that do not depend on each other; `settle` raises them together, in order of place."""

    def __init__(self) -> None:
        self._errors: list[UserError] = []

    def attempt(self, instead: T, make: Callable[[], T]) -> T:
        """The result of `make`, or `instead` after noting its error."""
        try:
            return make()
        except UserError as error:
            self._errors.append(error)
            return instead

    def note(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Notes diagnostics that a check yields; an error it raises is one more."""
        found: list[Diagnostic] = []
        self.attempt(None, lambda: found.extend(diagnostics))
        if found:
            self._errors.append(UserError(*found))

    def settle(self) -> None:
        """Raises UserError when anything was noted."""
        if self._errors:
            raise UserError(*merged(*self._errors).diagnostics[:MAX_REPORTED])


def gather(make: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """`make` of every item. Raises one UserError with the diagnostics of all that failed."""
    findings = Findings()
    made: list[T] = []
    for item in items:
        findings.attempt(None, lambda item=item: made.append(make(item)))
    findings.settle()
    return made
