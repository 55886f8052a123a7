"""A kernel's templates to assembly text, in Jinja's sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from toolchain.spec.errors import fail


@lru_cache(maxsize=8)
def _environment(folder: Path) -> SandboxedEnvironment:
    return SandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )


def render(folder: Path, name: str, scope: Mapping[str, Any]) -> str:
    """Raises UserError E1005 for a template that cannot be read, or that names what is not there."""
    try:
        return _environment(folder).get_template(name).render(scope)
    except jinja2.TemplateSyntaxError as error:
        raise fail("E1005", f"cannot read the template: {error.message}", place=f"{folder / (error.name or name)}:{error.lineno}") from None
    except (jinja2.TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise fail("E1005", f"the template fails: {error}", place=str(folder / name)) from None


@dataclass
class Renderer:
    """Renders what was not rendered before: many tiles differ in names that a template does not use."""

    used: dict[tuple[Path, str], tuple[str, ...]] = field(default_factory=dict[tuple[Path, str], tuple[str, ...]])
    made: dict[tuple[Any, ...], tuple[str, ...]] = field(default_factory=dict[tuple[Any, ...], tuple[str, ...]])

    def lines(self, folder: Path, name: str, scope: Mapping[str, Any]) -> tuple[str, ...]:
        """The lines that are not blank, each with its end. Raises UserError E1005 as `render` does."""
        if (folder, name) not in self.used:
            self.used[folder, name] = tuple(sorted(_names(folder, name)))
        known = {key: scope[key] for key in self.used[folder, name] if key in scope}
        key = (folder, name, *known.items())
        if key not in self.made:
            self.made[key] = tuple(f"{line}\n" for line in render(folder, name, known).splitlines() if line.strip())
        return self.made[key]


def _names(folder: Path, name: str) -> set[str]:
    """What a template and those that it imports take from outside."""
    found, seen, waiting = set[str](), set[str](), [name]
    while waiting:
        part = waiting.pop()
        if part not in seen:
            seen.add(part)
            names, others = _own_names(folder, part)
            found |= names
            waiting += others
    return found


@lru_cache(maxsize=256)
def _own_names(folder: Path, name: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """What a template takes from outside, and which ones it imports."""
    environment = _environment(folder)
    try:
        assert environment.loader is not None
        tree = environment.parse(environment.loader.get_source(environment, name)[0], name)
    except jinja2.TemplateSyntaxError as error:
        raise fail("E1005", f"cannot read the template: {error.message}", place=f"{folder / name}:{error.lineno}") from None
    except jinja2.TemplateError as error:
        raise fail("E1005", f"the template fails: {error}", place=str(folder / name)) from None
    return frozenset(meta.find_undeclared_variables(tree)), tuple(other for other in meta.find_referenced_templates(tree) if other is not None)
