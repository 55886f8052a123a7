"""Stages are copied from builds that differ in nothing they read, and made anew for any difference that there is.

One stage performed: whole or not at all, its receipt last. The action is a stand-in; real ones are in test_build.py.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.spec.errors import UserError, fail
from toolchain.spec.load import find_target
from toolchain.tasks import work
from toolchain.tasks.plan import make_plan
from toolchain.tasks.receipts import read_receipt, seen
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made, fulfil, perform


def silent(_: str) -> None:
    pass


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A copy of vta and its folder, to be changed."""
    source = find_target("vta")
    shutil.copytree(source.parent / "vta", tmp_path / "vta")
    return Path(shutil.copy(source, tmp_path / "vta.yaml"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "net.onnx").write_text("a network")
    return tmp_path / "net.onnx"


@pytest.fixture
def made_anew(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that were not adopted; each writes two files."""
    done: list[str] = []

    def action(step: Step, _: Say) -> Made:
        done.append(step.stage.name)
        (step.folder / "deep").mkdir(exist_ok=True)
        files = [step.folder / "made", step.folder / "deep" / "made"]
        for file in files:
            file.write_text(step.stage.name)
        return Made(files)

    monkeypatch.setattr(work, "_action", lambda _: action)
    return done


def build(machine: Path, model: Path, params: str = "") -> Step:
    given = {"target": str(machine), "model": str(model)} | ({"params": params} if params else {})
    step = make_plan(given, machine.parent / "build").steps[0]["schedule"]
    fulfil(step, silent)
    return next(each for each in step.chain if each.stage.name == "graph")


def test_a_parameter_that_the_stage_does_not_read_leaves_its_results(machine: Path, model: Path, made_anew: list[str]) -> None:
    first = build(machine, model)
    assert made_anew == ["onnx", "calibration", "graph", "schedule"]
    other = build(machine, model, "LOG_BUS:4")
    assert made_anew[4:] == ["schedule"]
    assert other.folder != first.folder
    assert (other.folder / "deep" / "made").read_text() == "graph"
    assert not (other.folder / "made").samefile(first.folder / "made")
    receipts = [read_receipt(step.receipt_path) for step in (first, other)]
    assert receipts[0]
    assert receipts[1]
    assert receipts[0].parts == receipts[1].parts
    assert receipts[0].result == receipts[1].result
    assert not other.changes()


@pytest.mark.parametrize("params", ["LOG_BLOCK:5", "LOG_INP_BUFF:14", "SHR:imm_sign"])
def test_a_parameter_that_it_reads_makes_it_run(params: str, machine: Path, model: Path, made_anew: list[str]) -> None:
    build(machine, model)
    build(machine, model, params)
    assert made_anew[4:] == ["graph", "schedule"]


def test_a_kernel_file_that_names_the_parameter_makes_it_run(machine: Path, model: Path, made_anew: list[str]) -> None:
    with (machine.parent / "vta" / "kernels.yaml").open("a") as file:
        file.write("# as wide as 1 << LOG_BUS\n")
    build(machine, model)
    build(machine, model, "LOG_BUS:4")
    assert made_anew[4:] == ["graph", "schedule"]


def test_another_configuration_is_no_twin(machine: Path, model: Path, made_anew: list[str]) -> None:
    build(machine, model)
    build(Path(f"{machine}:pynq"), model, "LOG_BUS:4")
    build(Path(f"{machine}:de10nano"), model)
    assert made_anew[4:] == ["graph", "schedule"] * 2


@pytest.mark.parametrize("changed", ["model", "kernels", "result", "name"])
def test_any_change_since_makes_it_run(changed: str, machine: Path, model: Path, made_anew: list[str]) -> None:
    first = build(machine, model)
    if changed == "model":
        model.write_text("another network")
    elif changed == "kernels":
        with (machine.parent / "vta" / "kernels.yaml").open("a") as file:
            file.write("# another state\n")
    elif changed == "result":
        (first.folder / "deep" / "made").write_text("edited")
    else:
        receipt = json.loads(first.receipt_path.read_text())
        receipt["written"]["../../made"] = receipt["written"].pop("made")
        first.receipt_path.write_text(json.dumps(receipt))
    build(machine, model, "LOG_BUS:4")
    assert "graph" in made_anew[4:]


def test_an_adopted_graph_is_what_the_build_would_have_made(machine: Path, tmp_path: Path) -> None:
    kept = dict[str, dict[str, bytes]]()
    for root, params in (("both", ""), ("both", "LOG_BUS:4"), ("alone", "LOG_BUS:4")):
        given = {"target": str(machine), "model": "digits"} | ({"params": params} if params else {})
        step = make_plan(given, tmp_path / root).steps[0]["graph"]
        told: list[str] = []
        fulfil(step, told.append)
        files = {str(path.relative_to(step.folder)): path.read_bytes() for path in sorted(step.folder.rglob("*")) if path.is_file()}
        kept[f"{root} {params}"] = files
        assert bool([text for text in told if text.startswith("graph ")]) == ((root, params) != ("both", "LOG_BUS:4"))
    assert kept["both LOG_BUS:4"] == kept["alone LOG_BUS:4"]


@pytest.fixture
def steps(tmp_path: Path, model: Path) -> dict[str, Step]:
    return dict(make_plan({"target": "vta", "model": str(model)}, tmp_path / "build").steps[0])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages performed, each of which writes one file."""
    done: list[str] = []

    def action(step: Step, say: Say) -> Made:
        say("at work")
        done.append(step.stage.name)
        (step.folder / "made").write_text(step.stage.name)
        return Made([step.folder / "made"])

    monkeypatch.setattr(work, "_action", lambda _: action)
    return done


def acts(monkeypatch: pytest.MonkeyPatch, does: Callable[[Step], object]) -> None:
    """Every stage does this, and leaves no file."""

    def action(step: Step, _: Say) -> Made:
        does(step)
        return Made([])

    monkeypatch.setattr(work, "_action", lambda _: action)


def test_a_stage_runs_once_until_something_changes(steps: dict[str, Step], calls: list[str], model: Path) -> None:
    step = steps["onnx"]
    for _ in range(2):
        perform(step, silent)
    assert (calls, step.changes()) == (["onnx"], [])
    model.write_text("another network")
    assert step.changes() == ["model file"]
    perform(step, silent)
    assert calls == ["onnx", "onnx"]


def test_stages_before_it_run_first_and_say_so_under_their_names(steps: dict[str, Step], calls: list[str]) -> None:
    told: list[str] = []
    fulfil(steps["graph"], told.append)
    assert calls == ["onnx", "calibration", "graph"]
    assert told == [f"{steps[name].title}: at work" for name in calls]


def test_files_of_earlier_runs_are_taken_away(steps: dict[str, Step], calls: list[str]) -> None:
    step = steps["onnx"]
    (step.folder / "old").mkdir(parents=True)
    (step.folder / "old" / "file").write_text("of an earlier run")
    perform(step, silent)
    assert [path.name for path in step.folder.rglob("*")] == ["made"]
    assert calls == ["onnx"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (fail("E0904", "it is open"), "E0904 it is open"),
        (MemoryError(), "E0005 there is not enough memory for onnx net"),
        (OSError(28, "No space left on device", "file"), "file: E0005 the system refused: No space left on device"),
    ],
)
def test_a_stage_that_fails_leaves_no_receipt(error: BaseException, told: str, steps: dict[str, Step], monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(_: Step) -> None:
        raise error

    acts(monkeypatch, raising)
    with pytest.raises(UserError) as caught:
        perform(steps["onnx"], silent)
    assert told in str(caught.value)
    assert steps["onnx"].receipt() is None


def test_a_file_that_changes_while_it_is_read_is_not_believed(steps: dict[str, Step], model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acts(monkeypatch, lambda _: model.write_text("saved meanwhile"))
    with pytest.raises(UserError, match="E1206 the file changed while it was read; build again"):
        perform(steps["onnx"], silent)
    assert steps["onnx"].receipt() is None


def test_a_file_that_an_action_read_counts_from_then_on(steps: dict[str, Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "samples.npz"
    other.write_text("samples")
    monkeypatch.setattr(work, "_action", lambda _: lambda *_: Made([], seen(other)))
    perform(steps["onnx"], silent)
    assert steps["onnx"].changes() == []
    other.write_text("other samples")
    assert steps["onnx"].changes() == [str(other)]


def test_an_edit_in_place_is_refused_until_it_is_moved_away(steps: dict[str, Step], calls: list[str], model: Path) -> None:
    step = steps["schedule"]
    fulfil(step, silent)
    (step.folder / "made").write_text("edited")
    with pytest.raises(UserError, match=r"made: E1408 this file is not as the build wrote it"):
        perform(step, silent)
    (step.folder / "made").unlink()
    perform(step, silent)
    assert calls[-1] == "schedule"
    assert model.exists()
