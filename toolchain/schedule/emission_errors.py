"""Errors in what templates write, told of the template: the text itself is left nowhere."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolchain.spec.errors import Diagnostic, UserError

SHOWN = 120
"""Characters of a line that a template wrote."""


def told_for(error: UserError, label: str) -> UserError:
    """The error of a template that could not be rendered, with what it was rendered for."""
    return UserError(*(replace(d, message=f"{d.message} (for {label})") for d in error.diagnostics))


def blamed(error: UserError, name: str, labels: Sequence[str], templates: Sequence[Path]) -> UserError:
    """Errors of assembling the text `name`, told of the template that wrote the line and of what it wrote it for; a template's fault once.

    labels, templates: of each line.
    """
    found: dict[tuple[Path | str, str], Diagnostic] = {}
    for diagnostic in error.diagnostics:
        span = diagnostic.span
        if span is None or span.source.path != name or not 1 <= span.line <= len(labels):
            found.setdefault((str(diagnostic), diagnostic.code), diagnostic)
            continue
        line = span.source.line(span.line).strip()
        shown = line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
        message = f"{diagnostic.message}, in `{shown}` for {labels[span.line - 1]}"
        template = templates[span.line - 1]
        found.setdefault((template, diagnostic.code), replace(diagnostic, message=message, span=None, place=str(template)))
    return UserError(*found.values())
