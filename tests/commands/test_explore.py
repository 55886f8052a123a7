"""`tilewright explore`: its words, its files and its answer."""

import json
from pathlib import Path

import pytest

from toolchain.cli import USAGE, main

pytest.importorskip("optuna")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_refused_points_end_nothing_and_everything_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "vta", "--vary", "LOG_BLOCK=2,3", "--models", "digits", "--objective", "ms,area", "-o", "s"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("digits on vta: 2 points of 2, 0 on the front, 2 refused\n")
    assert "refused" in printed.out
    assert "point 2 of 2: LOG_BLOCK=3, E0111" in printed.err
    assert {path.name for path in (folder / "s").iterdir()} >= {"front.html", "points.csv", "points.json", "study.journal"}
    assert all(point["refused"] for point in json.loads((folder / "s" / "points.json").read_text())["points"])


def test_options_go_before_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "e.yaml").write_text("explore: {machine: vta, models: [digits]}\nvary: {LOG_BLOCK: [4]}\n")
    assert main(["explore", "e.yaml", "--vary", "LOG_BLOCK=3", "--budget", "1"]) == 0
    assert "build/explore/vta/front.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["vta"], "E1501 nothing varies; for example --vary SIZE=3..5"),
        (["vta", "--vary", "LOG_BLOK=3"], "E1501 'LOG_BLOK' is no parameter of machine 'vta'; did you mean 'LOG_BLOCK'?"),
        (["vta", "--vary", "LOG_BLOCK=4", "--objective", "tme"], "E1501 there is no objective 'tme'"),
        (["none.yaml", "--vary", "LOG_BLOCK=4"], "E0001 there is no study and no machine file 'none.yaml'"),
        (["vta", "--vary", "LOG_BLOCK=4", "--budget", "0"], "E0002 --budget is 0, it must be from 1 on"),
        (["vta", "--vary", "LOG_BLOCK=4", "--workers", "0"], "E0002 --workers is 0, it must be from 1 on"),
        (["vta", "--vary", "LOG_BLOCK=4", "--vary", "LOG_BLOCK=3"], "E1501 'LOG_BLOCK' is varied twice"),
        (["vta", "--vary", "LOG_BLOCK=4", "--models", "digits,digit"], "E0001 unknown model 'digit'; did you mean 'digits'?"),
    ],
)
def test_mistakes_are_one_line_and_measure_nothing(words: list[str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", *words]) == (2 if told.startswith(USAGE) else 1)
    assert told in capsys.readouterr().err
    assert not list(folder.iterdir())
