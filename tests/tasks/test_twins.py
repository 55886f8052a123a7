"""Stages are copied from builds that differ in nothing they read, and made anew for any difference that there is."""

import json
import shutil
from pathlib import Path

import pytest

from toolchain.spec.load import find_target
from toolchain.tasks import work
from toolchain.tasks.plan import make_plan
from toolchain.tasks.receipts import read_receipt
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made, fulfil


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
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
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


def test_a_parameter_that_the_stage_does_not_read_leaves_its_results(machine: Path, model: Path, calls: list[str]) -> None:
    first = build(machine, model)
    assert calls == ["onnx", "calibration", "graph", "schedule"]
    other = build(machine, model, "LOG_BUS:4")
    assert calls[4:] == ["schedule"]
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
def test_a_parameter_that_it_reads_makes_it_run(params: str, machine: Path, model: Path, calls: list[str]) -> None:
    build(machine, model)
    build(machine, model, params)
    assert calls[4:] == ["graph", "schedule"]


def test_a_kernel_file_that_names_the_parameter_makes_it_run(machine: Path, model: Path, calls: list[str]) -> None:
    with (machine.parent / "vta" / "kernels.yaml").open("a") as file:
        file.write("# as wide as 1 << LOG_BUS\n")
    build(machine, model)
    build(machine, model, "LOG_BUS:4")
    assert calls[4:] == ["graph", "schedule"]


def test_another_configuration_is_no_twin(machine: Path, model: Path, calls: list[str]) -> None:
    build(machine, model)
    build(Path(f"{machine}:pynq"), model, "LOG_BUS:4")
    build(Path(f"{machine}:de10nano"), model)
    assert calls[4:] == ["graph", "schedule"] * 2


@pytest.mark.parametrize("changed", ["model", "kernels", "result", "name"])
def test_any_change_since_makes_it_run(changed: str, machine: Path, model: Path, calls: list[str]) -> None:
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
    assert "graph" in calls[4:]


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
