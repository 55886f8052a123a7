"""The shared templates of generated code."""

from typing import Any

import jinja2

from toolchain.spec.resources import PACKAGE

FOLDER = PACKAGE / "templates"


def render(folder: str, template: str, **values: Any) -> str:
    """The text of a template in a folder of toolchain/templates with its names in place; each of them has to be given."""
    loader, strict = jinja2.FileSystemLoader(FOLDER / folder), jinja2.StrictUndefined
    environment = jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=strict)
    return environment.get_template(template).render(**values)
