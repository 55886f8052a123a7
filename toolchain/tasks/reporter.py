"""How a run of doit looks: the stages speak for themselves, errors are lines on standard error, answers come last."""

import sys
from typing import Any

from toolchain.interrupts import stop_if_interrupted
from toolchain.spec.errors import UserError

ANSWER = "answer"
"""Key of a task's metadata: a function whose text is the answer to it."""


class Reporter:
    """doit's own interface; see doit.reporter.ConsoleReporter."""

    desc = "errors as lines, answers last"

    def __init__(self, _outstream: Any, _options: Any) -> None:
        self._wanted: list[Any] = []
        self._done: set[str] = set()

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        """Remembers which answers were asked for: those of tasks, and of what tasks stand for."""
        named = [tasks[name] for name in selected_tasks]
        inside = [tasks[name] for task in named if task.has_subtask for name in task.task_dep]
        self._wanted = [task for task in [*named, *inside] if ANSWER in (task.meta or {})]

    def add_failure(self, _task: Any, fail: Any) -> None:
        """One line for a user's mistake; a mistake of ours keeps its traceback. Raises KeyboardInterrupt for a task that an interrupt made fail."""
        stop_if_interrupted()
        print((fail.get_msg() if fail.traceback else fail.message).rstrip(), file=sys.stderr)

    def runtime_error(self, msg: str) -> None:
        print(msg, file=sys.stderr)

    def cleanup_error(self, exception: Any) -> None:
        print(exception.get_msg(), file=sys.stderr)

    def complete_run(self) -> None:
        """The answers, of whatever went well. Raises SystemExit, which doit lets pass, for one that cannot be given any more."""
        for task in self._wanted:
            if task.name in self._done:
                try:
                    print(task.meta[ANSWER]())
                except UserError as error:
                    print(error, file=sys.stderr)
                    raise SystemExit(1) from None

    def get_status(self, task: Any) -> None: ...

    def execute_task(self, task: Any) -> None: ...

    def add_success(self, task: Any) -> None:
        self._done.add(task.name)

    def skip_uptodate(self, task: Any) -> None:
        self._done.add(task.name)

    def skip_ignore(self, task: Any) -> None: ...

    def teardown_task(self, task: Any) -> None: ...
