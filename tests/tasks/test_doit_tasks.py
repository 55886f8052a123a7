"""doit's side of the tasks: the tasks of a dodo.py and the commands that we replace, without a build; and the lines of a run."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from doit import doit_cmd
from doit.exceptions import InvalidTask

from toolchain import cli
from toolchain.tasks import doit_tasks
from toolchain.tasks.doit_tasks import TaskForget, TaskHelp, TaskInfo, run_task, say, task_model
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import STAGES
from toolchain.tasks.variables import TASKS

WORDS = {"target": "vta", "model": "digits"}


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables on doit's command line, in an empty folder."""
    given: dict[str, str] = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", given)
    return given


def command(kind: type[Any]) -> Any:
    return kind.__new__(kind)  # doit's own constructor wants a whole command line


def test_without_variables_the_tasks_are_listed_and_each_says_what_is_missing(words: dict[str, str]) -> None:
    found = list(task_model())
    assert not words
    assert [task["basename"] for task in found] == [*TASKS]
    failure = found[0]["actions"][0]()
    assert "E1202 which machine? there is no 'target='" in str(failure)


def test_a_wrong_variable_is_one_line(words: dict[str, str]) -> None:
    words["target"] = "vtaa"
    with pytest.raises(InvalidTask, match="E0001"):
        list(task_model())


def test_every_stage_and_every_task_of_a_model_is_one_of_doit(words: dict[str, str]) -> None:
    words |= WORDS
    names = {task.get("basename", task.get("name")) for task in task_model()}
    assert {*TASKS} <= names
    assert len(names) >= len({*TASKS, *(stage.name for stage in STAGES)})


def test_help_of_a_task_names_its_variables(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(TaskHelp).execute({}, ["build"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"build: {TASKS['build']}\n")
    assert "target" in told


def test_info_and_forget_know_our_variables(words: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    words |= WORDS
    assert command(TaskInfo).execute({}, []) == 0
    assert capsys.readouterr().out.startswith("onnx digits: to be made: first time\n")
    assert command(TaskForget).execute({}, []) == 0
    assert capsys.readouterr().out == "there is nothing to forget\n"
    words["model"] = "no such model"
    assert command(TaskInfo).execute({}, []) == 1
    assert "E0001" in capsys.readouterr().err


def test_an_error_of_a_clean_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say("E1202 no machine")
    assert capsys.readouterr() == ("", "E1202 no machine\n")


def test_the_exit_code_of_a_run_is_that_of_doit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    class Main:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self, names: list[str]) -> int:
            ran.append(names)
            if names == ["verify"]:
                sys.exit(1)
            return 2

    monkeypatch.setattr(doit_tasks, "DoitMain", Main)
    plan = make_plan(WORDS, tmp_path)
    assert (run_task("build", plan), run_task("verify", plan), ran) == (2, 1, [["build"], ["verify"]])


def test_a_line_names_its_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Where standard error is no terminal; every line is shown, however soon it comes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("toolchain.tasks.doit_tasks.QUIET", 0.0)
    Path("soft.yaml").write_text("model: {name: soft, summary: for a test}\ninputs: {row: [1, 10]}\nlayers: [softmax]\n")
    assert cli.main(["build", "target=clib", "model=soft.yaml"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert "graph soft for clib: pass 1 of" in " ".join(lines)
    titles = [re.findall(r"\w+ soft(?: for clib)?(?=[: ])", line) for line in lines]
    assert max(map(len, titles)) == 1
