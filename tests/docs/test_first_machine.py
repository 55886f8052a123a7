"""What docs/your-first-machine.md and docs/your-first-operation.md promise; test_console_blocks.py runs their commands."""

from pathlib import Path

import pytest

from tests.docs.console_blocks import BLOCK, files_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
MACHINE = (DOCS / "your-first-machine.md").read_text()
OPERATION = (DOCS / "your-first-operation.md").read_text()
MOST_LINES = 200


def test_the_machine_and_its_kernels_are_short() -> None:
    files = {name: text for name, text in files_of(MACHINE).items() if name.startswith("targets/")}
    lines = sum(1 for text in files.values() for line in text.splitlines() if line.strip())
    assert {"targets/toy.yaml", "targets/toy/kernels.yaml"} == files.keys()
    assert lines <= MOST_LINES
    assert f"{lines:4} lines\n" in MACHINE


@pytest.mark.parametrize(
    ("page", "promises"),
    [
        (MACHINE, ("no errors", "\nequal\n", "E0601 race on acc", "E0501 deadlock", "E0603", "did you mean 'memory'?", "E1203", "E0105",
                   "16 of 16 nodes (100.0 %)", "digits on toy: exact")),
        (OPERATION, ("no kernel for 'prelu'", "absolute: 20 shapes", "all equal", "4 of 4 nodes (100.0 %)", "edges on toy: exact")),
    ],
    ids=["machine", "operation"],
)  # fmt: skip
def test_the_pages_print_what_they_promise(page: str, promises: tuple[str, ...]) -> None:
    """The answers that make a page's point, so that an update of its output cannot quietly lose them."""
    assert sum(language == "console" for language, _, _ in BLOCK.findall(page)) >= 5
    for promise in promises:
        assert promise in page, promise
