"""Every error code has a page, and every page a code."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"""["'](E[01]\d{3})["']""")


def _used() -> set[str]:
    return {code for path in (ROOT / "toolchain").rglob("*.py") for code in CODE.findall(path.read_text())}


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {path.stem for path in (ROOT / "docs" / "errors").glob("E*.md")} == _used()


def test_pages_begin_with_their_code_and_a_title() -> None:
    for path in (ROOT / "docs" / "errors").glob("E*.md"):
        assert re.match(rf"# {path.stem} [A-Z]", path.read_text()), path
