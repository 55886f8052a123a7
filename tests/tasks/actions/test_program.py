"""Schedules as files of a build: written, obeyed, refused where they were changed in place or cannot be.

What is said while the regions of a bundle are compiled.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import toolchain
from tests.api.test_compile import model
from tests.tasks.builds import artefacts, build_here, stages_run
from toolchain import cli
from toolchain.schedule.form.files import read_schedule_file

WORDS = ("build", "target=dpuv3", "model=digits")
OWN = Path("build/dpuv3/digits/schedule/region0.yaml")
MINE = Path("build/dpuv3/digits@schedule-mine/schedule/region0.yaml")
SPILT = "  - {tensor: conv2.relu.int8, memory: fm, bank: 16, address: 8, stored: false}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which digits is built; tests work on copies."""
    folder = tmp_path_factory.mktemp("made")
    assert build_here(folder, *WORDS)[0] == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    Path("mine.yaml").write_text(OWN.read_text().replace(SPILT, ""))
    return tmp_path / "work"


def told(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """What a build that fails says last."""
    assert cli.main([*WORDS, *words]) == 1
    return "\n".join(line for line in capfd.readouterr().err.splitlines() if not line.endswith((" ...", " s")))


def test_the_users_schedule_is_obeyed_in_a_folder_of_its_own(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = artefacts(folder)
    assert cli.main([*WORDS, "schedule=mine.yaml"]) == 0
    assert stages_run(capfd.readouterr().err) == ["schedule", "bundle", "summary"]
    assert [buffer.tensor for buffer in read_schedule_file(MINE).buffers] == [b.tensor for b in read_schedule_file(Path("mine.yaml")).buffers]
    assert cli.main([*WORDS, "schedule=mine.yaml"]) == 0
    assert stages_run(capfd.readouterr().err) == []
    with Path("mine.yaml").open("a") as file:
        file.write("# a word\n")
    assert cli.main([*WORDS, "schedule=mine.yaml"]) == 0
    assert stages_run(capfd.readouterr().err) == ["schedule"]
    assert artefacts(folder).items() > before.items()


def test_the_builds_own_schedule_changes_nothing(folder: Path) -> None:
    shutil.copytree(OWN.parent, folder / "mine")
    assert cli.main([*WORDS, "schedule=mine"]) == 0
    for name in ("schedule/region0.yaml", "bundle/digits.bundle"):
        assert (MINE.parents[1] / name).read_bytes() == (OWN.parents[1] / name).read_bytes()


@pytest.mark.parametrize("words", [(), ("streams=1",)])
@pytest.mark.usefixtures("folder")
def test_an_edit_in_place_is_refused_and_kept(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    edit = OWN.read_text().replace(SPILT, "")
    OWN.write_text(edit)
    for _ in range(2):
        assert told(capfd, *words).startswith(f"{OWN}: E1408 this file is not as the build wrote it")
        assert OWN.read_text() == edit
    OWN.unlink()
    assert cli.main(WORDS) == 0


@pytest.mark.usefixtures("folder")
def test_a_mistake_does_not_make_edits_forgotten(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*WORDS, "schedule=mine.yaml"]) == 0
    good = Path("mine.yaml").read_text()
    Path("mine.yaml").write_text("groups: []")
    assert "E0109" in told(capfd, "schedule=mine.yaml")
    MINE.write_text(MINE.read_text() + "# mine\n")
    Path("mine.yaml").write_text(good)
    assert "E1408" in told(capfd, "schedule=mine.yaml")


@pytest.mark.usefixtures("folder")
def test_a_file_of_the_users_own_beside_the_builds_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    own = OWN.with_name("mine.yaml")
    shutil.copy("mine.yaml", own)
    assert "E1408" in told(capfd, f"schedule={own}")
    assert own.exists()


@pytest.mark.usefixtures("folder")
def test_the_builds_own_folder_is_not_given(capfd: pytest.CaptureFixture[str]) -> None:
    assert "E1408 schedule= names the files that the build itself writes" in told(capfd, f"schedule={OWN.parent}")


@pytest.mark.usefixtures("folder")
def test_other_mistakes(capfd: pytest.CaptureFixture[str]) -> None:
    text = OWN.read_text()
    Path("other.yaml").write_text(text.replace("region: region0", "region: region4"))
    assert told(capfd, "schedule=other.yaml").startswith("other.yaml:2:24: E1409 the model has no region 'region4'; known: region0")
    Path("two").mkdir()
    for name in ("a.yaml", "b.yaml"):
        Path("two", name).write_text(text)
    assert "two/b.yaml:2:24: E1409 another file of this folder is the schedule of 'region0' too" in told(capfd, "schedule=two")
    assert "no.yaml: E0001 there is no such file" in told(capfd, "schedule=no.yaml")
    Path("none").mkdir()
    assert "none: E0001 there is no .yaml file in this folder" in told(capfd, "schedule=none")
    Path("bytes.yaml").write_bytes(b"\xff\xfe")
    assert "bytes.yaml: E0001 the schedule is not UTF-8 text" in told(capfd, "schedule=bytes.yaml")
    assert cli.main(["build", "target=dpuv3", "model=digits,mobilenet_v2", "schedule=mine.yaml"]) == 2
    assert "E1202 schedule= is for one model, and there are 2" in capfd.readouterr().err


@pytest.mark.usefixtures("folder")
def test_from_python() -> None:
    built = toolchain.compile("digits", "dpuv3", schedule="mine.yaml")
    assert built.verify().data["exact"]
    assert built.figures["regions"]


def test_every_region_and_operation_is_counted(tmp_path: Path) -> None:
    """Two convolutions with an operator of the host's between them."""
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.3, (16, 16, 1, 1)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
        helper.make_node("Erf", ["a"], ["b"], name="host"),
        helper.make_node("Conv", ["b", "w"], ["y"], name="second"),
    ]
    proto = model({"x": (TensorProto.FLOAT, [1, 16, 8, 8])}, nodes, {"y": TensorProto.FLOAT})
    proto.graph.initializer.append(weight)
    said: list[str] = []
    toolchain.compile(proto, "vta", place="all", folder=tmp_path, say=said.append)
    told = [text.partition(": ")[2] for text in said]
    assert [text for text in told if text.startswith("region")] == [
        "region 1 of 2: operation 1 of 1, first",
        "region 2 of 2: operation 1 of 1, second",
        "region 1 of 2: its program",
        "region 2 of 2: its program",
    ]
    assert [text for text in told if text.startswith("pass 1 of")]
    assert told[-1] == "writing the bundle"


def test_latency_takes_no_more_cycles_than_one_copy_and_gives_the_same_numbers(tmp_path: Path) -> None:
    """One image fills one of the rooms."""
    plain, quick = (toolchain.compile("digits", "stcp920", objective=objective, folder=tmp_path) for objective in ("", "latency"))
    image = np.random.default_rng(1).normal(size=(1, 1, 8, 8)).astype(np.float32)
    one, helped = (built.load().timed({"image": image}) for built in (plain, quick))
    assert helped.outputs["logits"].tobytes() == one.outputs["logits"].tobytes()
    assert helped.cycles < one.cycles
    (part,) = json.loads((quick.folder / "schedule/subgraphs.json").read_text())["region0"]
    schedule = read_schedule_file(quick.folder / "schedule/region0.yaml")
    assert part["copies"] == schedule.copies.times > 1
    assert f"{schedule.copies.times} programs share the loads of weights" in quick.summary
