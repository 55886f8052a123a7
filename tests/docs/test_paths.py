"""Files that the pages name are there: whoever moves a module corrects the pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("toolchain", "tests", "bench", "models", "targets", "examples")
FILES = {f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}


def prose(text: str) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_repository_are_there(page: Path) -> None:
    words = re.findall(r"`((?:toolchain|tests|bench|examples)/[\w./-]+)", prose(page.read_text()))
    assert [word for word in words if not re.search(r"[A-Z]{4}", word) and not (ROOT / word).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_are_those_of_the_repository_or_of_the_page(page: Path) -> None:
    text = page.read_text()
    own = {*re.findall(r"^```python (\S+)", text, re.M)}
    words = {word for word in re.findall(r"`([\w/]+\.py)`", prose(text)) if not re.search(r"[A-Z]{4}", word)}
    assert [word for word in sorted(words - own) if not any(path.endswith(f"/{word}") for path in FILES)] == []
