"""Every page escapes its values, and has no silent holes."""

import pytest
from jinja2 import UndefinedError

from toolchain.report.html import html_environment


def test_values_are_escaped_and_unknown_names_are_errors() -> None:
    environment = html_environment()
    assert environment.from_string("<p>{{ name }}</p>\n").render(name="<script>") == "<p>&lt;script&gt;</p>\n"
    with pytest.raises(UndefinedError):
        environment.from_string("{{ name }}").render()


def test_the_pages_of_the_toolchain_are_found() -> None:
    assert {"compare.html.j2", "explore.html.j2", "report.html.j2"} <= {*html_environment().list_templates()}
