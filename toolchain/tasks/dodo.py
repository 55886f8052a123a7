"""What doit reads: the tasks of the variables on its command line, and how it shall run them."""

from collections.abc import Iterator
from typing import Any

from doit import doit_cmd
from doit.exceptions import InvalidTask

from toolchain.spec.errors import UserError
from toolchain.tasks.graph import tasks_of
from toolchain.tasks.plan import make_plan


def task_model() -> Iterator[dict[str, Any]]:
    """Every task of every model that the variables name."""
    given: dict[str, str] = dict(doit_cmd._CMDLINE_VARS or {})  # pyright: ignore[reportPrivateUsage]  # doit itself ignores unknown names
    try:
        yield from tasks_of(make_plan(given))
    except UserError as error:
        raise InvalidTask(str(error)) from None
