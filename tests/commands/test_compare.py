"""Files of commits: as git has them, with their mistakes at the user's name of the file. `tilewright compare`: the kinds of things, what it
writes, and its judgement."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.report.sides import report
from toolchain.cli import USAGE, main
from toolchain.commands.compare import committed, is_committed
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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    report(tmp_path / "a" / "summary", "summary.json")
    report(tmp_path / "b" / "report", cycles=600.0)
    return tmp_path


def test_two_builds_in_every_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b/report/report.json", "--json", "c.json", "--html", "c.html", "--fail-above", "20 %"]) == 0
    printed = capsys.readouterr().out
    assert "machine: no difference" in printed
    assert "+20.0 %" in printed
    assert json.loads((folder / "c.json").read_text())["figures"]["cycles"][1]["value"] == 600.0
    assert (folder / "c.html").read_text().startswith("<!doctype html>")


def test_a_figure_that_got_worse_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", "--fail-above", "19.9"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "E0008 'machine' is 20 % worse in B than in A; allowed are 19.9 %\n"
    assert "conv1" in printed.out


def test_a_multiple_is_told_in_whole_per_cent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(folder / "c" / "report", machine_ms=0.25)
    assert main(["compare", "a", "c", "--fail-above", "1 %"]) == 1
    assert capsys.readouterr().err == "E0008 'machine' is 4,900 % worse in B than in A; allowed are 1 %\n"


@pytest.mark.usefixtures("folder")
def test_a_path_that_is_not_there_is_no_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "build/none"]) == 1
    assert capsys.readouterr().err == (
        "E0001 there is no 'build/none'; give a build's folder, a report, a bundle, a schedule, or a machine's name or file\n"
    )
    vta = str(ROOT / "targets" / "vta.yaml")
    assert main(["compare", vta, f"{vta}:ultra96"]) == 0


def test_of_report_and_summary_the_newer_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for age, path in ((50, report(folder / "b" / "summary", "summary.json", cycles=700.0)), (10, folder / "b" / "report" / "report.json")):
        os.utime(path, ns=(10**18 - age, 10**18 - age))
    assert main(["compare", "a", "b"]) == 0
    assert "600" in capsys.readouterr().out


def test_machines_and_schedules_are_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, size in (("one", 4), ("two", 8)):
        (folder / name).mkdir()
        head = "schedule: {version: 1, region: r, machine: m, fingerprint: f}\nbuffers: []\n"
        text = head + f"groups:\n  - operations:\n      - {{operation: 0, name: c, kernel: k, tile: {{oh: {size}}}}}\n"
        (folder / name / "r.yaml").write_text(text)
    assert main(["compare", "one", "two/r.yaml"]) == 0
    assert "r.c.tile.oh  4  8" in capsys.readouterr().out
    assert main(["compare", "vta", "vta:ultra96", "vta:pynq"]) == 0
    assert "params.LOG_BUS " in capsys.readouterr().out


def test_builds_of_different_models_are_compared_and_not_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(folder / "c" / "report", model="other")
    assert main(["compare", "a", "c"]) == 0
    assert main(["compare", "a", "c", "--fail-above", "1 %"]) == 1
    assert "E0007 the builds are of different models: net, other; --fail-above is for builds of one model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a"], "E0002 1 given, a comparison is of two to 8"),
        (["a", "b", "--fail-above", "much"], "E0002 'much' is no share in per cent; for example --fail-above 1%"),
        (["a", "vta"], "E0007 'a' is a build, 'vta' is a machine; compare things of one kind"),
        (["vta", "vta", "--fail-above", "1"], "E0007 'vta' has no figure that could get worse"),
        (["a", "."], ".: E0007 this folder holds neither a finished build nor schedules"),
        (["a", "vtaa"], "E0001 unknown target 'vtaa'; did you mean 'vta'?"),
        (["a", "none.json"], "none.json: E0001 cannot read the report"),
    ],
)
def test_mistakes_are_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words]) == (2 if told.startswith(USAGE) else 1)
    assert told in capsys.readouterr().err
