"""Folders belong to one thing at a time: builds of the same share them, builds of others wait.

What clean takes away, and what it leaves.
"""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.tasks.builds import ROOT, environment
from toolchain.spec.errors import UserError
from toolchain.tasks.folders import GATE, NAME, OWNER, USER, Claims, clean_plan, locked
from toolchain.tasks.plan import Plan, make_plan
from toolchain.tasks.stage import Job

HOLD = """
import sys
from pathlib import Path
from toolchain.tasks.folders import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def _holder(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )


def test_the_second_waits_and_says_so(tmp_path: Path) -> None:
    with _holder(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with _holder(tmp_path) as second:
            assert second.stderr is not None
            assert second.stdout is not None
            assert second.stderr.readline() == f"{tmp_path}: another build is at work here; waiting for it\n"
            first.communicate("\n")
            assert second.stdout.readline() == "held\n"
            second.communicate("\n")
            assert second.returncode == 0


def test_those_who_read_do_not_wait_for_each_other_and_a_writer_waits_for_all(tmp_path: Path) -> None:
    written = threading.Event()

    def write() -> None:
        with locked(tmp_path):
            written.set()

    writer = threading.Thread(target=write)
    with locked(tmp_path, reading=True):
        with locked(tmp_path, reading=True):
            writer.start()
            assert not written.wait(1.0)
        assert not written.wait(0.2)
    assert written.wait(20.0)
    writer.join()


def test_a_lock_of_a_folder_that_was_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    folder, inside = tmp_path / "home", threading.Event()

    def second() -> None:
        with locked(folder):
            inside.set()

    waiting = threading.Thread(target=second)
    with locked(folder):
        waiting.start()
        assert not inside.wait(0.7)
        (folder / NAME).unlink()
        folder.rmdir()
    assert inside.wait(20.0)
    waiting.join()
    assert (folder / NAME).exists()


def test_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    with _holder(tmp_path) as first:
        assert first.stdout is not None
        first.stdout.readline()
        first.kill()
        first.communicate()
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="E0005 cannot write into the folder"), locked(tmp_path / "file" / "inner"):
        pass


def job(root: Path, **given: str) -> Job:
    return make_plan({"target": "vta", "model": "digits", **given}, root).jobs[0]


@pytest.mark.parametrize("other", [{"fallback": "no"}, {"html": "yes"}])
def test_another_build_in_the_folder_waits_for_the_first(other: dict[str, str], tmp_path: Path) -> None:
    done = threading.Event()

    def second() -> None:
        with Claims() as claims:
            claims.hold(job(tmp_path, **other))
            done.set()

    with Claims() as first:
        first.hold(job(tmp_path))
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not done.wait(1.0)
    assert done.wait(20.0)
    waiting.join()


def test_the_same_build_and_builds_for_other_machines_do_not_wait(tmp_path: Path) -> None:
    with Claims() as first, Claims() as second, Claims() as third:
        first.hold(job(tmp_path))
        first.hold(job(tmp_path))
        second.hold(job(tmp_path))
        third.hold(job(tmp_path, target="vta:ultra96", fallback="no"))
        third.hold(job(tmp_path, place="all", fallback="no"))


def test_what_a_killed_build_left_holds_no_one(tmp_path: Path) -> None:
    folder = job(tmp_path).folder
    with Claims() as claims:
        claims.hold(job(tmp_path))
    (folder / f"{USER}1-dead.lock").touch()
    with Claims() as claims:
        claims.hold(job(tmp_path, fallback="no"))
    assert {path.name for path in folder.iterdir()} == {GATE, OWNER}


def test_a_build_of_the_same_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    folder = job(tmp_path).folder
    with Claims() as first:
        first.hold(job(tmp_path))
        (folder / f"{USER}1-dead.lock").touch()
        with Claims() as second:
            second.hold(job(tmp_path))
            held = {path.name for path in folder.glob(f"{USER}*")}
            assert len(held) == 2
            assert f"{USER}1-dead.lock" not in held
    assert {path.name for path in folder.iterdir()} == {GATE, OWNER}


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
