"""The manual: a golden page of the toy machine, and every machine's page complete."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.report.manual import manual_html, manual_markdown
from toolchain.spec.load import list_targets, load_file, load_machine

RIPPLE = Path(__file__).resolve().parents[1] / "data" / "machines" / "ripple.yaml"


def test_a_whole_manual(golden: Callable[[str, str], None]) -> None:
    golden("manual/ripple.md", manual_markdown(load_file(RIPPLE)))


@pytest.mark.parametrize("name", list_targets())
def test_every_name_of_a_machine_is_in_its_manual(name: str) -> None:
    machine = load_machine(name)
    text = manual_markdown(machine)
    for instruction in machine.instructions:
        assert f"### {instruction.name}\n" in text
        assert all(f"| `{field.name}` |" in text for field in instruction.fields)
    assert all(f"| `{memory.name}` |" in text for memory in machine.memories)
    assert all(assumption in text for assumption in machine.assumptions)


def test_choices_stand_by_their_names() -> None:
    assert "\n| SHR | full | " in manual_markdown(load_machine("vta"))


def test_tables_keep_their_columns() -> None:
    """A `|` in a machine's own text must not add a column."""
    for name in list_targets():
        width = 0
        for line in manual_markdown(load_machine(name)).splitlines():
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith(("| ", "|--")) else 0
            assert not (width and cells) or cells == width, line
            width = cells


def test_html_is_one_page_without_markup_from_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "evil.yaml"
    path.write_text(RIPPLE.read_text().replace("A streaming filter", "<script>alert(1)</script>"))
    page = manual_html(load_file(path))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<h3>FIR</h3>" in page
