"""doit inside the console script: the same tasks, the same reporter."""

import atexit
import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from toolchain.tasks.claims import Claims
from toolchain.tasks.config import CONFIG
from toolchain.tasks.graph import tasks_of
from toolchain.tasks.plan import Plan

atexit.register(gc.freeze)  # a process that ends would look for circles among all that a build made, for a fifth of a second


def run_task(name: str, plan: Plan) -> int:
    """doit's exit code: 0 done, 1 a task failed, 2 a mistake of ours."""
    claims = Claims()

    def task_model() -> Iterator[dict[str, Any]]:
        yield from tasks_of(plan, claims)

    loader = ModuleTaskLoader({"task_model": task_model, "DOIT_CONFIG": {**CONFIG}})
    doit: Any = DoitMain(loader, config_filenames=())
    with claims, _rare_collections():
        try:
            return int(doit.run([name]))
        except SystemExit as ended:  # by our reporter
            return int(ended.code or 0)


@contextmanager
def _rare_collections() -> Generator[None]:
    """A build makes millions of objects and hardly a circle: looking for those at Python's usual pace takes a tenth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
