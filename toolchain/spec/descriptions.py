"""Descriptions for readers: every parameter, memory, instruction and field of a machine can have one, `doc`, which its manual prints."""

from collections.abc import Iterator

from toolchain.spec.errors import Diagnostic, Span, UserError
from toolchain.spec.model import Machine


def require_descriptions(machine: Machine) -> None:
    """Raises UserError E0147 with a diagnostic for each part that has none; a field that instructions share has one."""
    if missing := [Diagnostic("E0147", f"{subject} has no description", span, "add 'doc:'") for subject, span in _undescribed(machine)]:
        raise UserError(*sorted(missing, key=_line))


def _line(found: Diagnostic) -> tuple[int, int]:
    return (found.span.line, found.span.column) if found.span else (0, 0)


def _undescribed(machine: Machine) -> Iterator[tuple[str, Span | None]]:
    yield from ((f"parameter '{name}'", each.span) for name, each in machine.parameters.items() if not each.doc.strip())
    yield from ((f"memory '{each.name}'", each.span) for each in machine.memories if not each.doc.strip())
    shared: dict[tuple[str, Span | None], list[str]] = {}
    for kind in machine.instructions:
        if not kind.doc.strip():
            yield f"instruction '{kind.name}'", kind.span
        for field in kind.fields:
            if not field.doc.strip():
                shared.setdefault((field.name, field.span), []).append(kind.name)
    yield from ((f"field '{name}' of {', '.join(kinds)}", span) for (name, span), kinds in shared.items())
