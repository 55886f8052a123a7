"""Errors in instructions, told of the template or the place of a kernel file that wrote them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from toolchain.schedule.kernels.instructions import Place
from toolchain.spec.errors import Diagnostic, Source, UserError

SHOWN = 120
"""Characters of an instruction's line in a message."""


def told_for(error: UserError, label: str) -> UserError:
    """The error of a template that could not be rendered, with the label of its step."""
    return UserError(*(replace(d, message=f"{d.message} (for {label})") for d in error.diagnostics))


def told(diagnostic: Diagnostic, line: str, label: str, place: Place) -> Diagnostic:
    """A fault of an instruction, with its line, its purpose, and the place that wrote it."""
    shown = line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
    message = f"{diagnostic.message}, in `{shown}` for {label}"
    if isinstance(place, Path):
        return replace(diagnostic, message=message, span=None, place=str(place))
    return replace(diagnostic, message=message, span=place)


def told_of_template(error: UserError, text: Source, label: str, template: Path) -> UserError:
    """Faults in a text that a template wrote, one for each kind of fault."""
    return once((told(d, text.line(d.span.line).strip(), label, template), template) if d.span else (d, str(d)) for d in error.diagnostics)


def once(found: Iterable[tuple[Diagnostic, Place | str]]) -> UserError:
    """The first diagnostic of each code and place: the other instructions of the place have the same fault."""
    first: dict[tuple[Place | str, str], Diagnostic] = {}
    for diagnostic, place in found:
        first.setdefault((place, diagnostic.code), diagnostic)
    return UserError(*first.values())
