"""One stage performed: whole or not at all, its receipt last. The action is a stand-in; real ones are in test_build.py."""

from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.spec.errors import UserError, fail
from toolchain.tasks import work
from toolchain.tasks.plan import make_plan
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made, fulfil, perform


def silent(_: str) -> None:
    pass


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "net.onnx").write_text("a network")
    return tmp_path / "net.onnx"


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
