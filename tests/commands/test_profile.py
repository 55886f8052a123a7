"""`tilewright profile` as a command."""

import json
from pathlib import Path

import pytest

from tests.report.profile.measured import text
from tests.runtime import small
from toolchain.cli import main
from toolchain.runtime.bundle import write_bundle


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_bundle(tmp_path / "small.bundle", small.bundle())
    return "small.bundle"


def test_a_profile_of_one_of_two_regions(bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text(text(3.0))
    assert main(["profile", bundle, "p.csv", "--html", "p.html", "--json", "p.json"]) == 0
    assert capsys.readouterr().out.startswith("region0 on vta: ")
    (table,) = json.loads(Path("p.json").read_text())
    assert (table["region"], table["offset"], table["deviations"]) == ("region0", 3.0, [])
    assert "small on vta, region0, modelled and measured" in Path("p.html").read_text()


def test_both_regions(bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text("region,operation,start_ns\nregion1,conv3,5\nregion0,conv1,5\n")
    assert main(["profile", bundle, "p.csv"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if " on vta: " in line] == ["region0", "region1"]
    assert main(["profile", bundle, "p.csv", "--region", "region1", "--html", "p.html"]) == 0


@pytest.mark.parametrize(
    ("rows", "words", "error"),
    [
        ("region,instruction,start_ns\nregion7,0,1\n", [], "p.csv:2:1: E1128 the bundle has no program 'region7'; known: region0, region1"),
        ("instruction,start_ns\n0,1\n", [], "p.csv:2:1: E1128 the row does not say which region it is of; known: region0, region1"),
        ("region,instruction,start_ns\nregion0,0,1\n", ["--region", "region1"], "p.csv: E1128 the profile has no row of 'region1'"),
        ("region,instruction,start_ns\nregion0,0,1\n", ["--region", "region2"], "E0003 the bundle has no program 'region2'; known: region0, region1"),
        ("region,instruction,start_ns\nregion0,0,1\nregion1,0,1\n", ["--html", "p.html"], "E0002 a page is of one region; choose it with --region"),
    ],
)
def test_mistakes_are_one_line(rows: str, words: list[str], error: str, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text(rows)
    assert main(["profile", bundle, "p.csv", *words]) == 1
    assert capsys.readouterr().err.startswith(error)
