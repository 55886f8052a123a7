"""Every page of docs/ is the truth: its files are written, its commands are run, and their output must be the page's."""

from pathlib import Path

import pytest

from tests.docs.console_blocks import check_page, files_of, has_commands, lacking

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if has_commands(page))


def test_the_pages_for_users_have_commands() -> None:
    assert {"command-line.md", "python.md", "your-first-machine.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_command_of_the_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if missing := lacking(page):
        pytest.skip(f"{page.name} needs {missing}: pip install '.[real]', then python models/real/prepare.py")
    monkeypatch.chdir(tmp_path)
    check_page(page, tmp_path, request.config.getoption("--update-golden"))


def test_what_a_page_needs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text, missing in (("", ""), ("<!-- needs: numpy, onnx -->\n", ""), ("<!-- needs: onnx, real/no_such.npz -->\n", "real/no_such.npz"),
                          ("a\n<!-- needs: no_such_package -->\n", "no_such_package")):  # fmt: skip
        page.write_text(text)
        assert lacking(page) == missing


def test_a_page_may_begin_with_the_files_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = "```python a/b.py\nimport sys\n```\n```python a/b.py\nsys.stdout.write('one')\n```\n```console\n$ python a/b.py\none```\n"
    assert files_of(first) == {"a/b.py": "import sys\nsys.stdout.write('one')\n"}
    (tmp_path / "first.md").write_text(first)
    second = "<!-- continues: first.md -->\n```python a/b.py\nsys.stdout.write('two')\n```\n```console\n$ python a/b.py\n```\n"
    (tmp_path / "second.md").write_text(second)
    check_page(tmp_path / "second.md", tmp_path, update=True)
    assert "$ python a/b.py\nonetwo```" in (tmp_path / "second.md").read_text()
