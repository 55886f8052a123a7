"""What docs/your-first-machine.md promises; test_console_blocks.py runs its commands."""

from pathlib import Path

from tests.docs.console_blocks import BLOCK

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "your-first-machine.md").read_text()
MACHINE = ROOT / "tests" / "data" / "machines" / "ripple.yaml"


def test_its_machine_is_the_one_of_the_tests() -> None:
    assert "".join(body for _, name, body in BLOCK.findall(PAGE) if name == "ripple.yaml") == MACHINE.read_text()


def test_the_page_prints_what_it_promises() -> None:
    """The answers that make the page's point, so that an update of its output cannot quietly lose them."""
    assert sum(language == "console" for language, _, _ in BLOCK.findall(PAGE)) >= 8
    for promise in ("no errors", "\nequal\n", "E0601 race on out", "E0501 deadlock", "E0603", "did you mean 'count'?", "E0105"):
        assert promise in PAGE, promise
