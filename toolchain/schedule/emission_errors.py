"""Errors in what templates write, told of the template: the text itself is left nowhere."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolchain.spec.errors import Diagnostic, Span, UserError

SHOWN = 120
"""Characters of a line that a template wrote."""


def told_for(error: UserError, label: str) -> UserError:
    """The error of a template that could not be rendered, with what it was rendered for."""
    return UserError(*(replace(d, message=f"{d.message} (for {label})") for d in error.diagnostics))


def blamed(error: UserError, name: str, labels: Sequence[str], sources: Sequence[Path | Span]) -> UserError:
    """Errors of assembling the text `name`, told of the template or place of the kernel file that wrote the line and of what it wrote it for; each
    one's fault once.

    labels, sources: of each line.
    """
    found: dict[tuple[Path | Span | str, str], Diagnostic] = {}
    for diagnostic in error.diagnostics:
        span = diagnostic.span
        if span is None or span.source.path != name or not 1 <= span.line <= len(labels):
            found.setdefault((str(diagnostic), diagnostic.code), diagnostic)
            continue
        line = span.source.line(span.line).strip()
        shown = line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
        message = f"{diagnostic.message}, in `{shown}` for {labels[span.line - 1]}"
        source = sources[span.line - 1]
        told = replace(diagnostic, message=message, span=source) if isinstance(source, Span) else None
        found.setdefault((source, diagnostic.code), told or replace(diagnostic, message=message, span=None, place=str(source)))
    return UserError(*found.values())
