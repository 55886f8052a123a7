"""The shared templates of C code."""

from typing import Any

import jinja2

from toolchain.spec.resources import PACKAGE

FOLDER = PACKAGE / "templates" / "c99"


def render_c(template: str, **values: Any) -> str:
    """The text of a template of this folder with its names in place; each of them has to be given."""
    loader = jinja2.FileSystemLoader(FOLDER)
    environment = jinja2.Environment(
        loader=loader, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template(template).render(**values)
