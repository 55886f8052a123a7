"""docs/questions.md: every command, page and test that answers a question is there."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from toolchain.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "questions.md"
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if line.startswith("|") and "`" in line]


def known(words: list[str]) -> bool:
    """Whether there is such a command, with an action where it has some; words with `=` are its variables."""
    told = io.StringIO()
    names = [word for word in words if "=" not in word]
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO()), pytest.raises(SystemExit) as ended:
        main([*names, "--help"])
    usage = told.getvalue().partition("\n\n")[0]
    return ended.value.code == 0 and usage.startswith(f"usage: tilewright {' '.join(names)} ") and " ACTION" not in usage


def there(path: Path, anchor: str) -> bool:
    """Whether there is such a page, and in it such a heading as links name it: in small letters, with hyphens for spaces."""
    if not anchor:
        return path.exists()
    headings = re.findall(r"^#+ (.*)", path.read_text(), re.M)
    return anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_there_are_questions_and_none_is_there_twice() -> None:
    assert len({row[0] for row in ROWS}) == len(ROWS) > 30
    assert all(len(row) == 4 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_answer_is_there(row: list[str]) -> None:
    _, commands, pages, test = row
    named = re.findall(r"`tilewright ([^`]+)`", commands)
    assert named
    assert [name for name in named if not known(name.split())] == []
    links = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", pages)
    assert links
    assert [link for link, anchor in links if not there(PAGE.parent / link, anchor)] == []
    path, _, name = test.strip("`").partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M), test


def test_a_command_that_is_not_there_is_found() -> None:
    assert known(["bundle", "show"])
    assert not any(known(words) for words in (["bundle"], ["bundel"], ["bundle", "shov"], ["build", "fallback"]))
