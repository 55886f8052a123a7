"""Every page escapes its values, and has no silent holes."""

import pytest
from jinja2 import UndefinedError

from toolchain.report.tables import counted, html_environment, scaled, table_text, tally


def test_values_are_escaped_and_unknown_names_are_errors() -> None:
    environment = html_environment()
    assert environment.from_string("<p>{{ name }}</p>\n").render(name="<script>") == "<p>&lt;script&gt;</p>\n"
    with pytest.raises(UndefinedError):
        environment.from_string("{{ name }}").render()


def test_the_pages_of_the_toolchain_are_found() -> None:
    assert {"compare.html.j2", "explore.html.j2", "report.html.j2"} <= {*html_environment().list_templates()}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1 k"), (1536, "1.54 k"), (999_600, "1000 k"), (3_858_924_544, "3.86 G"), (12_345_000, "12.3 M")],
)
def test_three_digits_and_a_prefix(value: int, text: str) -> None:
    assert scaled(value) == text


def test_a_unit_stands_behind_its_prefix() -> None:
    assert (scaled(5, "B"), scaled(5e6, "B")) == ("5 B", "5 MB")


def test_one_is_not_plural() -> None:
    assert (counted(1, "node"), counted(0, "node")) == ("1 node", "0 nodes")


def test_a_tally_begins_with_the_most_frequent() -> None:
    assert tally({"Mul": 2, "Add": 2, "Conv": 7}) == "7 Conv, 2 Add, 2 Mul"
    assert not tally({})


def test_plain_in_a_pipe_and_ruled_on_a_terminal() -> None:
    head, rows = ("node", "MACs"), [["conv [red]", "12"], ["x", "3456"]]
    assert table_text(head, rows, (0,)) == "node        MACs\nconv [red]    12\nx           3456\n"
    ruled = table_text(head, rows, (0,), terminal=True, width=40)
    assert "\x1b[1m" in ruled
    assert "conv [red]" in ruled
    assert max(map(len, ruled.splitlines())) < 60
