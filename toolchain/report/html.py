"""Pages of HTML: one set of rules for all templates."""

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from toolchain.spec.files import PACKAGE


def html_environment() -> Environment:
    """The toolchain's own templates; values are escaped, and an unknown name is an error."""
    made = Environment(
        loader=FileSystemLoader(PACKAGE / "templates"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=True
    )
    made.keep_trailing_newline = True
    return made
