"""What clean takes away, and what it leaves."""

from pathlib import Path

import pytest

from toolchain.tasks.clean import clean_plan
from toolchain.tasks.plan import Plan, make_plan


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Every stage of one model has a file, a folder of its own and a receipt."""
    found = make_plan({"target": "vta", "model": "digits", "dim": "n:1"}, tmp_path / "build")
    for step in found.steps[0].values():
        (step.folder / "inside").mkdir(parents=True)
        (step.folder / "inside" / "file").write_text(step.stage.name)
        step.receipt_path.write_text("{}")
    return found


def everything(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and ".machines" not in path.parts}


def test_nothing_is_left(plan: Plan, tmp_path: Path) -> None:
    gone = clean_plan(plan)
    assert len(gone) == 2 * len(plan.steps[0])
    assert [path.name for path in (tmp_path / "build").iterdir()] == [".machines"]
    assert clean_plan(plan) == []


def test_a_dry_run_says_the_same_and_does_nothing(plan: Plan, tmp_path: Path) -> None:
    before = everything(tmp_path)
    said = clean_plan(plan, dry=True)
    assert everything(tmp_path) == before
    assert clean_plan(plan) == said


def test_files_of_others_stay(plan: Plan, tmp_path: Path) -> None:
    job = plan.jobs[0]
    notes = [job.folder / "notes.txt", tmp_path / "build" / "vta" / "other" / "graph" / "x.onnx", tmp_path / "build" / "models" / "digits" / "x"]
    for path in notes:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    clean_plan(plan)
    assert everything(tmp_path) - set(notes) <= {job.folder / ".lock"}
    assert all(path.is_file() for path in notes)
