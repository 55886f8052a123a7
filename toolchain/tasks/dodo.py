"""The tasks that doit reads, of the variables on its command line."""

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from doit import doit_cmd
from doit.exceptions import InvalidTask, TaskFailed

from toolchain.spec.errors import UserError
from toolchain.tasks.claims import Claims
from toolchain.tasks.graph import tasks_of
from toolchain.tasks.names import TASKS
from toolchain.tasks.plan import make_plan


def task_model() -> Iterator[dict[str, Any]]:
    """Every task of every model that the variables name; without any variable the tasks alone, so that `doit list` has something to say."""
    given: dict[str, str] = dict(doit_cmd._CMDLINE_VARS or {})  # pyright: ignore[reportPrivateUsage]  # doit itself ignores unknown names
    try:
        yield from tasks_of(make_plan(given), Claims())
    except UserError as error:
        if given:
            raise InvalidTask(str(error)) from None
        told, clean = partial(TaskFailed, str(error)), (say, [str(error)])
        common: dict[str, Any] = {"actions": [told], "clean": [clean], "io": {"capture": False}}
        yield from ({"basename": name, "doc": doc, **common} for name, doc in TASKS.items())


def say(text: str) -> None:
    """An error of a clean: doit has no other way to tell it."""
    print(text, file=sys.stderr)
