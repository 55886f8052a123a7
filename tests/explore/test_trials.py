"""Trials in a journal: budgets, refusals, studies that go on, and points of processes that died."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.explore.studies import STUDY, found, outcome
from toolchain.explore.study import Point, Study
from toolchain.explore.trials import JOURNAL, OWNER, open_trials, quiet
from toolchain.spec.errors import UserError

pytest.importorskip("optuna")
ROOT = Path(__file__).resolve().parents[2]


def measure_all(study: Study, folder: Path, most: int = 1000) -> list[Point]:
    """The points that were asked for, in their order."""
    asked: list[Point] = []
    with quiet():
        trials = open_trials(study, folder)
        while len(asked) < most:
            before = len(asked)
            for trial in trials.next():
                asked.append(trial.point)
                trials.tell(trial, outcome(trial.point))
                if len(asked) == most:
                    return asked
            if len(asked) == before:
                return asked
    return asked


def finished(study: Study, folder: Path) -> list[Point]:
    return list(open_trials(study, folder).finished())


@pytest.mark.parametrize("search", ["grid", "random", "bayes", "evolution"])
def test_every_search_measures_each_point_once_and_the_shipped_one_first(search: str, tmp_path: Path) -> None:
    study = replace(STUDY, search=search)
    asked = measure_all(study, tmp_path)
    assert asked[0] == STUDY.start
    assert sorted(asked) == sorted(found())
    assert dict(open_trials(study, tmp_path).finished()) == found()


@pytest.mark.parametrize("search", ["grid", "random", "bayes", "evolution"])
def test_a_budget_is_kept_and_the_same_seed_asks_for_the_same(search: str, tmp_path: Path) -> None:
    study = replace(STUDY, search=search, budget=4)
    asked = [measure_all(study, tmp_path / name) for name in "ab"]
    assert len(asked[0]) == 4
    assert asked[0] == asked[1]


@pytest.mark.parametrize("search", ["random", "bayes"])
def test_a_study_goes_on_where_it_was(search: str, tmp_path: Path) -> None:
    study = replace(STUDY, search=search)
    first = measure_all(study, tmp_path, most=2)
    then = measure_all(study, tmp_path)
    assert sorted(first + then) == sorted(found())
    assert finished(study, tmp_path) == list(found())


def test_a_larger_budget_goes_on(tmp_path: Path) -> None:
    small = measure_all(replace(STUDY, search="random", budget=2), tmp_path)
    more = measure_all(replace(STUDY, search="random", budget=6), tmp_path)
    assert len(small + more) == len({*small, *more}) == 6


def test_points_of_a_process_that_died_are_measured_again(tmp_path: Path) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True).stdout.strip()
    with quiet():
        trials = open_trials(STUDY, tmp_path)
        taken = next(iter(trials.next()))
        taken.handle.set_user_attr(OWNER, f"{os.uname().nodename}:{gone}")
        live = next(iter(trials.next()))
        live.handle.set_user_attr(OWNER, f"{os.uname().nodename}:{os.getppid()}")
        other = next(iter(trials.next()))
        other.handle.set_user_attr(OWNER, "elsewhere:1")
    asked = measure_all(STUDY, tmp_path)
    assert taken.point in asked
    assert live.point not in asked
    assert other.point not in asked


@pytest.mark.parametrize("search", ["grid", "bayes"])
@pytest.mark.parametrize("suggested", [0, 1, 2])
def test_a_process_that_died_while_it_took_a_point_loses_none(search: str, suggested: int, tmp_path: Path) -> None:
    study = replace(STUDY, search=search)
    with quiet():
        taken = open_trials(study, tmp_path).held.ask()
        for axis in study.axes[:suggested]:
            taken.suggest_int(axis.name, 0, len(axis.values) - 1)
    assert sorted(measure_all(study, tmp_path)) == sorted(found())


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.explore.studies import STUDY
from toolchain.explore.trials import JOURNAL_LOCK, JournalLock, open_trials
open_trials(STUDY, Path(sys.argv[1]))
JournalLock(Path(sys.argv[1]) / JOURNAL_LOCK).acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_while_it_writes_holds_up_no_other(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert sorted(measure_all(STUDY, tmp_path)) == sorted(found())


def test_a_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    measure_all(STUDY, tmp_path, most=1)
    with pytest.raises(UserError, match="E1502 this folder holds another study"):
        open_trials(replace(STUDY, seed=9), tmp_path)
    with pytest.raises(UserError, match="E1502"):
        open_trials(replace(STUDY, objectives=("ms",)), tmp_path)


@pytest.mark.parametrize("search", ["grid", "bayes"])
@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_line_that_was_cut_off_is_no_mistake(search: str, cut: int, tmp_path: Path) -> None:
    study = replace(STUDY, search=search)
    measure_all(study, tmp_path, most=3)
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-cut])
    measure_all(study, tmp_path)
    assert dict(open_trials(study, tmp_path).finished()) == found()


def test_a_damaged_line_is_told_with_its_number(tmp_path: Path) -> None:
    measure_all(STUDY, tmp_path)
    journal = tmp_path / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], lines[4][:9] + lines[5], *lines[6:]]))
    with pytest.raises(UserError, match=r"study.journal: E1502 line 5 of the study's journal is damaged; delete that line"):
        open_trials(STUDY, tmp_path)
    journal.write_bytes(b"".join(lines[:4]))
    measure_all(STUDY, tmp_path)
    assert dict(open_trials(STUDY, tmp_path).finished()) == found()


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"E1503 explorations need the package 'optuna', which is not installed; pip install 'tilewright\[explore\]'"):
        open_trials(STUDY, tmp_path)
