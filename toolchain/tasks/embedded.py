"""doit inside the console script: the same tasks, the same reporter."""

import atexit
import gc
from collections.abc import Iterator
from typing import Any

from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from toolchain.tasks.claims import Claims
from toolchain.tasks.garbage import rare_collections
from toolchain.tasks.graph import tasks_of
from toolchain.tasks.plan import Plan
from toolchain.tasks.reporter import CONFIG

atexit.register(gc.freeze)  # a process that ends would look for circles among all that a build made, for a fifth of a second


def run_task(name: str, plan: Plan) -> int:
    """doit's exit code: 0 done, 1 a task failed, 2 a mistake of ours."""
    claims = Claims()

    def task_model() -> Iterator[dict[str, Any]]:
        yield from tasks_of(plan, claims)

    loader = ModuleTaskLoader({"task_model": task_model, "DOIT_CONFIG": {**CONFIG}})
    doit: Any = DoitMain(loader, config_filenames=())
    with claims, rare_collections():
        try:
            return int(doit.run([name]))
        except SystemExit as ended:  # by our reporter
            return int(ended.code or 0)
