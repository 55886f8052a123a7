"""Files of commits: as git has them, with their mistakes at the user's name of the file."""

import shutil
import subprocess
from pathlib import Path

import pytest

from toolchain.cli import main
from toolchain.commands.committed import committed, is_committed
from toolchain.spec.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(*words: str) -> None:
    own = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *own, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits of a machine in a folder; the present one is the folder."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    (tmp_path / "machines").mkdir()
    monkeypatch.chdir(tmp_path / "machines")
    text = (ROOT / "targets" / "vta.yaml").read_text()
    for changed in (text, text.replace("LOG_BUS: {value: 3", "LOG_BUS: {value: 5")):
        Path("own.yaml").write_text(changed)
        git("add", ".")
        git("commit", "-qm", "change")
    return tmp_path


@pytest.mark.usefixtures("repository")
def test_a_machine_of_two_commits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "HEAD~1:own.yaml", "own.yaml"]) == 0
    out = capsys.readouterr().out
    assert "A  HEAD~1:own.yaml  Versatile" in out
    assert [line.split() for line in out.splitlines() if line.startswith("params.")] == [["params.LOG_BUS", "3", "5"]]


@pytest.mark.usefixtures("repository")
def test_a_mistake_is_told_with_the_name_that_was_given() -> None:
    Path("wrong.yaml").write_text("target: {name: 7\n")
    git("add", ".")
    git("commit", "-qm", "wrong")
    with pytest.raises(UserError, match=r"(?m)^HEAD:wrong\.yaml:\d+:\d+: E01"):
        main_side("HEAD:wrong.yaml")


def main_side(text: str) -> None:
    from toolchain.commands.compare import read_side

    read_side(text)


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("text", ["HEAD:none.yaml", "nowhere:own.yaml", "HEAD:../../etc/passwd.yaml", "HEAD:/etc/own.yaml"])
def test_a_file_that_git_does_not_have(text: str) -> None:
    with pytest.raises(UserError, match="E0001 git has no such file"), committed(text):
        pass


def test_names_of_machines_and_options_are_no_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("vta", "vta:ultra96", "--output=x:own.yaml", "-p:own.yaml", "own.yaml", ":own.yaml", "HEAD:own.py"):
        assert not is_committed(text), text
    assert is_committed("HEAD:own.yaml")
    Path("HEAD:own.yaml").write_text("")
    assert not is_committed("HEAD:own.yaml")


def test_without_git_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="E0001 git is not installed"), committed("HEAD:own.yaml"):
        pass
