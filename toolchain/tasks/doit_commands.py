"""`doit help TASK`, `doit info` and `doit forget`, as a user of our tasks expects them; doit's own know neither our variables nor our receipts."""

import sys
from collections.abc import Callable
from typing import Any

from doit import doit_cmd
from doit.cmd_forget import Forget
from doit.cmd_help import Help
from doit.cmd_info import Info

from toolchain.spec.errors import UserError
from toolchain.tasks.clean import forget_plan
from toolchain.tasks.info import info_text
from toolchain.tasks.names import TASKS, variables_text
from toolchain.tasks.plan import Plan, make_plan


class TaskHelp(Help):
    """doit's own, and the variables of a task."""

    def execute(self, params: Any, args: list[str]) -> Any:
        if len(args) != 1 or args[0] not in TASKS:
            return super().execute(params, args)
        print(f"{args[0]}: {TASKS[args[0]]}\n\nvariables, NAME=VALUE on the command line:\n{variables_text()}")
        return 0


class TaskInfo(Info):
    """Prints the dependencies of each stage of a build; the names of tasks are not needed."""

    doc_purpose = "show what each stage depends on, and whether it is up to date"
    doc_usage = "target=MACHINE [model=MODEL,...] ..."

    def execute(self, params: Any, args: list[str]) -> int:  # noqa: ARG002
        return _told(info_text)


class TaskForget(Forget):
    """Takes away the receipts of a build's stages: doit itself remembers nothing of them."""

    doc_purpose = "make the next build run every stage again"
    doc_usage = "target=MACHINE [model=MODEL,...] ..."

    def execute(self, params: Any, args: list[str]) -> int:  # noqa: ARG002
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
