"""The manual: a golden page of the toy machine, and every machine's page complete."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.report.manual import bit_diagram, manual_markdown
from toolchain.spec.load import list_targets, load_file, load_machine
from toolchain.spec.model import Field

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


def test_two_words_with_a_hole() -> None:
    fields = [Field("opcode", 0, 3), Field("length", 8, 8), Field("address", 16, 16)]
    assert bit_diagram(fields, 32, 16) == "\n".join(
        [
            "word 0",
            " 15     8 7   3 2      0",
            "+--------+-----+--------+",
            "| length |  -  | opcode |",
            "+--------+-----+--------+",
            "word 1",
            " 15      0",
            "+---------+",
            "| address |",
            "+---------+",
        ]
    )


def test_single_bits_and_a_hole_at_the_bottom() -> None:
    text = bit_diagram([Field("go", 7, 1)], 8, 32)
    assert text.splitlines()[1].split() == ["7", "6", "0"]
    assert "| go |" in text
    assert text.splitlines()[3].rstrip().endswith("-  |")
