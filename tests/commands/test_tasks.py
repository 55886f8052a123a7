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
        (["vta", "digits", "fast"], "E0002 'fast' is neither a variable nor a machine nor a model; MACHINE MODEL NAME=VALUE ..."),
        (["vta", "digits", "=fast"], "E0002 '=fast' is neither a variable nor a machine nor a model; MACHINE MODEL NAME=VALUE ..."),
        (["vta", "target=dpuv3"], "E1202 'target' is vta and dpuv3; a variable stands once"),
        (["vtta"], "E0001 unknown target 'vtta'; did you mean 'vta'?"),
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


def test_two_words_without_a_name_are_the_machine_and_the_model() -> None:
    assert tasks.given_of(["vta", "effort=0", "digits"]) == {"target": "vta", "effort": "0", "model": "digits"}


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
