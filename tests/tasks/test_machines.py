"""Machines of a build and the names of their folders.

Deployments: the machines, links and rules of one system.
"""

import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.errors import UserError
from toolchain.spec.load import find_target, load_machine
from toolchain.tasks import machines
from toolchain.tasks.actions.paths import machines_of
from toolchain.tasks.folders import claims_of
from toolchain.tasks.machines import LONGEST, deployed, deployment_of, find_deployment, folder_name, load_target, path_name
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import STAGES, Job

PLAIN = {"target": "vta", "model": "digits"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = find_target("vta").read_text()
    for name in ("mine.yaml", "a/vta.yaml", "b/vta.yaml", "toy.yaml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text.replace("name: vta\n", "name: toy\n") if name == "toy.yaml" else text)
    for name in ("net.onnx", "a/net.onnx", "b/net.onnx", "resnet18.onnx", "a/resnet18.onnx"):
        Path(name).touch()


def job(**more: str) -> Job:
    return make_plan({**PLAIN, **more}).jobs[0]


@pytest.mark.usefixtures("here")
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
        ({"model": "resnet18"}, "vta/resnet18"),
        ({"model": "resnet18.onnx"}, "vta/resnet18@resnet18.onnx"),
        ({"model": "./resnet18.onnx", "place": "all"}, "vta/resnet18@resnet18.onnx@place-all"),
        ({"model": "a/resnet18.onnx"}, "vta/resnet18@a"),
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


@pytest.mark.usefixtures("here")
def test_the_machine_of_a_folder_targets_is_the_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "toy.yaml").write_text((tmp_path / "toy.yaml").read_text())
    assert [job(target=name).machines for name in ("toy", "targets/toy.yaml", "toy.yaml")] == ["toy", "toy", "toy@toy.yaml"]


@pytest.mark.usefixtures("here")
def test_builds_share_all_stages_before_the_first_that_differs() -> None:
    plain, guided = job(), job(schedule="mine.yaml")
    same = [stage.name for stage in STAGES if plain.home(stage.name) == guided.home(stage.name)]
    assert same == ["onnx", "calibration", "graph", "accuracy", "explain"]
    recorded = job(calibration="seen.npz")
    assert [stage.name for stage in STAGES if plain.home(stage.name) == recorded.home(stage.name)] == ["onnx"]
    assert str(recorded.home("calibration")) == "build/models/digits@calibration-seen"


@pytest.mark.usefixtures("here")
def test_every_stage_has_a_folder_that_is_claimed() -> None:
    found = job(calibration="seen.npz", schedule="mine.yaml", place="all")
    assert {found.home(stage.name) for stage in STAGES} == {folder for folder, _ in claims_of(found)}


@pytest.mark.usefixtures("here")
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


@pytest.mark.usefixtures("here")
@given(st.text(max_size=30))
def test_any_text_is_the_name_of_one_visible_folder(text: str) -> None:
    name = folder_name(text)
    assert name
    assert "/" not in name
    assert not name.startswith(".")


@pytest.mark.usefixtures("here")
def test_another_root_changes_no_name() -> None:
    found = job(schedule="mine.yaml")
    assert replace(found, root=Path("out")).folder == Path("out/vta/digits@schedule-mine")


ROOT = Path(__file__).resolve().parents[2]
VTA = (ROOT / "targets" / "vta.yaml").read_text()


def _written(tmp_path: Path, text: str) -> str:
    (tmp_path / "vta.yaml").write_text(text)
    return str(tmp_path / "vta.yaml")


def test_what_a_build_needs_to_know(tmp_path: Path) -> None:
    found = load_target("vta:ultra96", (("LOG_BLOCK", "4"),), tmp_path)
    assert (found.name, found.config, found.label) == ("vta", "ultra96", "vta.ultra96+LOG_BLOCK-4")
    assert found.folder == found.path.parent / "vta"
    assert "digits" in found.models
    assert {"timing", "encoding", "layouts"} <= set(found.sections)


def test_a_known_machine_is_not_elaborated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_target("vta", (), tmp_path)

    def refuse(*_: object) -> None:
        pytest.fail("elaborated again")

    monkeypatch.setattr(machines, "_elaborated", refuse)
    assert load_target("vta", (), tmp_path) == first


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    first = load_target("vta", (), tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_text()
    good = json.loads(whole)
    values = (None, 5, "5", [5], {"a": 5}, {"a": None}, {"timing": 5})
    wrong = [json.dumps({**good, key: value}) for key in good for value in values if type(value) is not type(good[key]) or isinstance(value, dict)]
    for text in ("", "[]", "{}", "5", "null", "[" * 100_000, whole[:100], json.dumps({**good, "more": 1}), *wrong):
        kept.write_text(text)
        assert load_target("vta", (), tmp_path) == first
        assert kept.read_text() == whole


def test_a_timing_number_changes_only_the_timing(tmp_path: Path) -> None:
    before = load_target(_written(tmp_path, VTA), (), tmp_path).sections
    after = load_target(_written(tmp_path, VTA.replace("GEMM_LATENCY: {value: 4", "GEMM_LATENCY: {value: 5")), (), tmp_path).sections
    assert [name for name in before if before[name] != after[name]] == ["timing"]


def test_a_comment_changes_nothing(tmp_path: Path) -> None:
    before = load_target(_written(tmp_path, VTA), (), tmp_path).sections
    assert load_target(_written(tmp_path, VTA + "\n# a word\n"), (), tmp_path).sections == before


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert load_target("vta", (), tmp_path / "file" / "cache").name == "vta"


def test_an_unknown_parameter_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0104 unknown parameter 'LOG_BLOK'"):
        load_target("vta", (("LOG_BLOK", "4"),), tmp_path)


def test_kernels_stand_beside_the_machine_or_on_the_search_path(tmp_path: Path) -> None:
    given = _written(tmp_path, VTA)
    assert load_target(given, (), tmp_path / "cache").folder.resolve() == ROOT / "targets" / "vta"
    (tmp_path / "vta").mkdir()
    (tmp_path / "vta" / "kernels.yaml").write_text("kernels: {}\n")
    assert load_target(given, (), tmp_path / "cache").folder == tmp_path / "vta"


BOARD = """\
deploy: {name: board, summary: two machines}
host:
  gmac_per_s: {default: {value: 40, source: a guess, assumed: true}}
  gb_per_s: {value: 20, source: a guess, assumed: true}
machines:
  - target: dpuv3
    link:
      launch_us: {value: 5, source: measured}
      transfer_us: {value: 4, source: measured}
      transfer_gb_per_s: {value: 13, source: measured}
  - {target: vta, params: {LOG_ACC_BUFF: 16}}
rules:
  - {nodes: [head*], on: host, because: the host reads it}
  - {nodes: [Conv], on: vta, because: a trial}
"""


def planned(folder: Path, text: str = BOARD, **more: str) -> Job:
    path = folder / "board.yaml"
    path.write_text(text)
    with chdir(folder):
        return make_plan({"target": str(path), "model": "digits", **more}, folder / "build").jobs[0]


def test_its_machines_are_the_build_s(tmp_path: Path) -> None:
    job = planned(tmp_path)
    assert [(target.name, target.params) for target in job.targets] == [("dpuv3", ()), ("vta", (("LOG_ACC_BUFF", "16"),))]
    with chdir(tmp_path):
        assert job.folder == tmp_path / "build" / "board" / "digits"
    changed = planned(tmp_path, params="vta.LOG_ACC_BUFF:15")
    assert changed.targets[1].params == (("LOG_ACC_BUFF", "15"),)
    with chdir(tmp_path):
        assert changed.folder == tmp_path / "build" / "board+vta.LOG_ACC_BUFF-15" / "digits"


def test_costs_are_the_system_s_and_else_the_machine_s(tmp_path: Path) -> None:
    first, second = (machine.host for machine in machines_of(planned(tmp_path)))
    own = load_machine("vta").host
    assert first
    assert second
    assert own
    assert first.gb_per_s == second.gb_per_s != own.gb_per_s
    assert (first.launch_us.value, first.transfer_us.value, first.transfer_gb_per_s.value) == (5, 4, 13)
    assert second.step_us == own.step_us is not None
    assert (second.launch_us, second.transfer_us, second.transfer_gb_per_s) == (own.launch_us, own.transfer_us, own.transfer_gb_per_s)


def test_a_machine_without_costs_needs_both_halves() -> None:
    machine = replace(load_machine("dpuv3"), host=None)
    board = deployment_of(BOARD, "board.yaml")
    assert deployed(machine, board, 0).host
    with pytest.raises(UserError, match="E1210 the 'link' of machine 'dpuv3' is in neither the deployment nor the machine's file"):
        deployed(machine, board, 1)
    with pytest.raises(UserError, match="E1210 'host' is in neither"):
        deployed(machine, replace(board, host=None), 0)
    assert deployed(machine, replace(board, host=None), 1) is machine


def test_a_machine_s_file_is_looked_for_beside_it(tmp_path: Path) -> None:
    board = deployment_of(BOARD.replace("target: dpuv3", "target: mine/own.yaml:small"), str(tmp_path / "board.yaml"))
    assert board.members[0].given == f"{tmp_path / 'mine/own.yaml'}:small"


def test_files_of_machines_and_names_are_none(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("target: {name: deploy}\n")
    assert find_deployment("vta") is find_deployment(str(tmp_path / "other.yaml")) is find_deployment(str(tmp_path / "no.yaml")) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("on: vta", "on: vtb", r"E1209 there is no machine 'vtb' in this deployment; did you mean 'vta'"),
        ("rules:", "rule:", "E0108 unknown key 'rule'"),
        ("because: a trial", "why: a trial", "E0109"),
        ("{value: 4, ", "{value: 0, ", "E0116"),
        ("target: vta, params: {LOG_ACC_BUFF: 16}", "target: dpuv3", "E1207 'dpuv3' and 'dpuv3'"),
        ("LOG_ACC_BUFF", "LOG_ACC_BUF", r"board.yaml:11:14: E0104 unknown parameter 'LOG_ACC_BUF'"),
        ("target: dpuv3", "target: no_such", r"board.yaml:6:13: E0001 unknown target 'no_such'"),
    ],
)
def test_mistakes_have_a_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        planned(tmp_path, BOARD.replace(old, new))


def test_machines_beside_it_are_refused(tmp_path: Path) -> None:
    (tmp_path / "board.yaml").write_text(BOARD)
    with pytest.raises(UserError, match=r"E1202 '.*board.yaml' in 'target' is a deployment, which names all machines; write it alone"):
        make_plan({"target": f"vta,{tmp_path / 'board.yaml'}", "model": "digits"}, tmp_path / "build")


def test_any_change_of_the_file_is_a_change_of_the_build(tmp_path: Path) -> None:
    found = [planned(tmp_path, text).deployment for text in (BOARD, BOARD.replace("a trial", "a test"))]
    assert len({each.digest for each in found if each}) == 2
