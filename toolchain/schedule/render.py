"""A kernel's templates to assembly text, in Jinja's sandbox."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
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
