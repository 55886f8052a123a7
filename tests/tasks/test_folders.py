"""Folders of builds: simple in the plain case, and another one for whatever a user would compare."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.load import find_target
from toolchain.tasks.claims import claims_of
from toolchain.tasks.folders import LONGEST, folder_name, path_name
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import Job
from toolchain.tasks.stages import STAGES

PLAIN = {"target": "vta", "model": "digits"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = find_target("vta").read_text()
    for name in ("mine.yaml", "a/vta.yaml", "b/vta.yaml", "toy.yaml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text.replace("name: vta\n", "name: toy\n") if name == "toy.yaml" else text)
    for name in ("net.onnx", "a/net.onnx", "b/net.onnx"):
        Path(name).touch()


def job(**more: str) -> Job:
    return make_plan({**PLAIN, **more}).jobs[0]


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ({}, "vta/digits"),
        ({"target": "vta:ultra96", "params": "LOG_BUS:5"}, "vta.ultra96+LOG_BUS-5/digits"),
        ({"target": "mine.yaml"}, "vta@mine.yaml/digits"),
        ({"target": "a/vta.yaml:pynq"}, "vta@a.pynq/digits"),
        ({"target": "b/vta.yaml"}, "vta@b/digits"),
        ({"target": "toy.yaml"}, "toy/digits"),
        ({"model": "net.onnx"}, "vta/net"),
        ({"model": "./net.onnx"}, "vta/net"),
        ({"model": "a/net.onnx", "dim": "n:2"}, "vta/net@a+n-2"),
        ({"model": "b/net.onnx"}, "vta/net@b"),
        ({"place": "all"}, "vta/digits@place-all"),
        ({"calibration": "data/seen.npz"}, "vta/digits@calibration-data~seen"),
        ({"schedule": "mine.yaml"}, "vta/digits@schedule-mine"),
        ({"target": "stcp920", "streams": "8", "place": "least"}, "stcp920/digits@place-least@streams-8"),
        ({"target": "stcp920", "streams": "8", "images": "4"}, "stcp920/digits@streams-8@images-4"),
        ({"streams": "1", "fallback": "no", "html": "yes"}, "vta/digits"),
    ],
)
def test_the_folder_says_what_was_built(words: dict[str, str], folder: str) -> None:
    assert str(job(**words).folder) == f"build/{folder}"


def test_the_machine_of_a_folder_targets_is_the_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "toy.yaml").write_text((tmp_path / "toy.yaml").read_text())
    assert [job(target=name).machines for name in ("toy", "targets/toy.yaml", "toy.yaml")] == ["toy", "toy", "toy@toy.yaml"]


def test_builds_share_all_stages_before_the_first_that_differs() -> None:
    plain, guided = job(), job(schedule="mine.yaml")
    same = [stage.name for stage in STAGES if plain.home(stage.name) == guided.home(stage.name)]
    assert same == ["onnx", "calibration", "graph", "accuracy", "explain"]
    recorded = job(calibration="seen.npz")
    assert [stage.name for stage in STAGES if plain.home(stage.name) == recorded.home(stage.name)] == ["onnx"]
    assert str(recorded.home("calibration")) == "build/models/digits@calibration-seen"


def test_every_stage_has_a_folder_that_is_claimed() -> None:
    found = job(calibration="seen.npz", schedule="mine.yaml", place="all")
    assert {found.home(stage.name) for stage in STAGES} == {folder for folder, _ in claims_of(found)}


def test_a_file_elsewhere_has_a_name_without_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path.joinpath(*"abcdefgh" * 6)
    deep.mkdir(parents=True)
    (deep / "net.onnx").touch()
    monkeypatch.chdir("/")
    name = job(model=str(tmp_path / "net.onnx")).label
    assert name.startswith("net@")
    assert "/" not in name
    long = path_name(Path("/").joinpath(*["somewhere"] * 20))
    assert len(long) == LONGEST + 8


@given(st.text(max_size=30))
def test_any_text_is_the_name_of_one_visible_folder(text: str) -> None:
    name = folder_name(text)
    assert name
    assert "/" not in name
    assert not name.startswith(".")


def test_another_root_changes_no_name() -> None:
    found = job(schedule="mine.yaml")
    assert replace(found, root=Path("out")).folder == Path("out/vta/digits@schedule-mine")
