"""Words of the tasks' commands, and `clean` and `info`, which build nothing."""

from argparse import Namespace
from pathlib import Path

import pytest

from toolchain.commands import tasks
from toolchain.spec.errors import UserError

WORDS = ["target=vta", "model=digits"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["vta"], "E0002 'vta' does not have the form NAME=VALUE; for example target=NAME"),
        ([*WORDS, "model=resnet18"], "E1202 'model' is digits and resnet18; a variable stands once"),
        (["target=vta", "modle=digits"], "E1201 unknown variable 'modle'; did you mean 'model'?"),
    ],
)
def test_wrong_words_are_told_before_anything_is_made(words: list[str], told: str, folder: Path) -> None:
    for command in (tasks.run, tasks.clean, tasks.info):
        with pytest.raises(UserError) as caught:
            command(Namespace(command="build", variables=words, dry_run=False))
        assert told in str(caught.value)
    assert not list(folder.iterdir())


def test_a_word_twice_is_once() -> None:
    tasks.info(Namespace(variables=[*WORDS, "model=digits"]))


def test_info_has_a_paragraph_for_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    tasks.info(Namespace(variables=WORDS))
    heads = [text.splitlines()[0] for text in capsys.readouterr().out.split("\n\n")]
    assert heads[0] == "onnx digits: to be made: first time"
    assert heads[5] == "bundle digits for vta: to be made after onnx, calibration, graph, schedule"


def test_clean_removes_a_build_or_says_that_it_would(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = folder / "build" / "vta" / "digits" / "graph"
    made.mkdir(parents=True)
    (made / "00-import.onnx").write_text("made")
    tasks.clean(Namespace(variables=WORDS, dry_run=True))
    told = capsys.readouterr().err
    assert told.startswith("would remove build/vta/digits")
    assert made.exists()
    tasks.clean(Namespace(variables=WORDS, dry_run=False))
    assert capsys.readouterr().err == told.replace("would remove", "removed")
    assert not made.exists()
