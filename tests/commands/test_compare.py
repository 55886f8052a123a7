"""`tilewright compare`: the kinds of things, what it writes, and its judgement."""

import json
import os
from pathlib import Path

import pytest

from tests.report.comparison.sides import report
from toolchain.cli import main


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
    assert main(["compare", *words]) == 1
    assert told in capsys.readouterr().err
