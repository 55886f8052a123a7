"""A kernel's templates to assembly text, each rendered once for the values that it sees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.schedule.sandbox.environment import names_of, render

__all__ = ["Renderer", "render"]


@dataclass
class Renderer:
    """Renders each template once for the names that it uses: many tiles differ in names that a template does not use."""

    used: dict[tuple[Path, str], tuple[str, ...]] = field(default_factory=dict[tuple[Path, str], tuple[str, ...]])
    made: dict[tuple[object, ...], tuple[str, ...]] = field(default_factory=dict[tuple[object, ...], tuple[str, ...]])

    def lines(self, folder: Path, name: str, scope: Mapping[str, object]) -> tuple[str, ...]:
        """The lines that are not blank, each with its end. Raises UserError E1005 as `render` does."""
        if (folder, name) not in self.used:
            self.used[folder, name] = tuple(sorted(template_names(folder, name)[0]))
        known = {key: scope[key] for key in self.used[folder, name] if key in scope}
        key = (folder, name, *known.items())
        if key not in self.made:
            self.made[key] = tuple(f"{line}\n" for line in render(folder, name, known).splitlines() if line.strip())
        return self.made[key]


def template_names(folder: Path, name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a template and those that it imports take from outside, and all of these templates. Raises UserError E1005."""
    found, seen, waiting = set[str](), set[str](), [name]
    while waiting:
        part = waiting.pop()
        if part not in seen:
            seen.add(part)
            names, others = names_of(folder, part)
            found |= names
            waiting += others
    return frozenset(found), frozenset(seen)
