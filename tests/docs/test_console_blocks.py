"""Every page of docs/ is the truth: its files are written, its commands are run, and their output must be the page's."""

import sys
from pathlib import Path

import pytest

from tests.docs.console_blocks import check_page, files_of, has_commands, lacking

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if has_commands(page))


def test_the_pages_for_users_have_commands() -> None:
    assert {"command-line.md", "python.md", "your-first-machine.md"} <= {page.name for page in PAGES}


@pytest.mark.drawn(12)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_command_of_the_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if missing := lacking(page):
        pytest.skip(f"{page.name} needs {missing}: a program, or of pip install '.[real]' and python models/real/prepare.py")
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


def test_a_page_may_begin_with_a_folder_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scripts take arguments, import their neighbours, and may exit."""
    monkeypatch.chdir(tmp_path)
    script = "import sys\n\nfrom neighbour import NAME\n\nif __name__ == '__main__':\n    sys.exit(print(NAME, *sys.argv[1:]))\n"
    page = f"<!-- copies: tests/golden/checks -->\n```python a/neighbour.py\nNAME = 'one'\n```\n```python a/run\n{script}```\n"
    (tmp_path / "page.md").write_text(page + "```console\n$ python a/run two\none two\n```\n")
    path = [*sys.path]
    check_page(tmp_path / "page.md", tmp_path, update=False)
    assert sys.path == path
    copied = {each.name for each in (DOCS.parent / "tests" / "golden" / "checks").iterdir()}
    assert copied <= {each.name for each in tmp_path.iterdir()}
