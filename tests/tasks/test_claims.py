"""Folders belong to one thing at a time: builds of the same share them, builds of others wait."""

import threading
from pathlib import Path

import pytest

from toolchain.tasks.claims import GATE, OWNER, USER, Claims
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import Job


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
