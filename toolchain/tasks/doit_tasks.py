"""doit's side of the tasks: `task_model` for a dodo.py, `run_task` for the console script, and `doit help`, `info` and `forget`.

doit's own commands know neither our variables nor our receipts.
"""

import atexit
import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from doit import doit_cmd
from doit.cmd_base import ModuleTaskLoader
from doit.cmd_forget import Forget
from doit.cmd_help import Help
from doit.cmd_info import Info
from doit.doit_cmd import DoitMain
from doit.exceptions import InvalidTask, TaskFailed

from toolchain.process import rare_collections
from toolchain.spec.errors import UserError
from toolchain.tasks.folders import Claims, forget_plan
from toolchain.tasks.plan import Plan, info_text, make_plan
from toolchain.tasks.reporter import CONFIG
from toolchain.tasks.task_graph import Task, tasks_of
from toolchain.tasks.variables import TASKS, variables_text


def task_model() -> Iterator[Task]:
    """Every task of every model that the variables name; without any variable the tasks alone, so that `doit list` has something to say."""
    given: dict[str, str] = dict(doit_cmd._CMDLINE_VARS or {})  # pyright: ignore[reportPrivateUsage]  # doit itself ignores unknown names
    try:
        yield from tasks_of(make_plan(given), Claims())
    except UserError as error:
        if given:
            raise InvalidTask(str(error)) from None
        told, clean = partial(TaskFailed, str(error)), (say, [str(error)])
        common: Task = {"actions": [told], "clean": [clean], "io": {"capture": False}}
        yield from ({"basename": name, "doc": doc, **common} for name, doc in TASKS.items())


def say(text: str) -> None:
    """An error of a clean: doit has no other way to tell it."""
    print(text, file=sys.stderr)


def run_task(name: str, plan: Plan) -> int:
    """doit's exit code: 0 done, 1 a task failed, 2 a mistake of ours."""
    atexit.register(gc.freeze)  # a process that ends would look for circles among all that a build made, for a fifth of a second
    claims = Claims()

    def task_model() -> Iterator[Task]:
        yield from tasks_of(plan, claims)

    loader = ModuleTaskLoader({"task_model": task_model, "DOIT_CONFIG": {**CONFIG}})
    doit: Any = DoitMain(loader, config_filenames=())
    with claims, rare_collections():
        try:
            return int(doit.run([name]))
        except SystemExit as ended:  # by our reporter
            return int(ended.code or 0)


class TaskHelp(Help):
    """doit's own, and the variables of a task."""

    def execute(self, params: object, args: list[str]) -> Any:
        if len(args) != 1 or args[0] not in TASKS:
            return super().execute(params, args)
        print(f"{args[0]}: {TASKS[args[0]]}\n\nvariables, NAME=VALUE on the command line:\n{variables_text()}")
        return 0


class TaskInfo(Info):
    """Prints the dependencies of each stage of a build; the names of tasks are not needed."""

    doc_purpose = "show what each stage depends on, and whether it is up to date"
    doc_usage = "target=MACHINE [model=MODEL,...] ..."

    def execute(self, params: object, args: list[str]) -> int:  # noqa: ARG002
        return _told(info_text)


class TaskForget(Forget):
    """Takes away the receipts of a build's stages: doit itself remembers nothing of them."""

    doc_purpose = "make the next build run every stage again"
    doc_usage = "target=MACHINE [model=MODEL,...] ..."

    def execute(self, params: object, args: list[str]) -> int:  # noqa: ARG002
        return _told(lambda plan: "\n".join(f"forgot {folder}" for folder in forget_plan(plan)) or "there is nothing to forget")


def _told(answer: Callable[[Plan], str]) -> int:
    """Prints an answer about the plan of the variables on doit's command line; the exit code."""
    given: dict[str, str] = dict(doit_cmd._CMDLINE_VARS or {})  # pyright: ignore[reportPrivateUsage]  # as in dodo.py
    try:
        print(answer(make_plan(given)))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
