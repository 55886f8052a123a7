"""How a run of doit looks: the stages speak for themselves, errors are lines on standard error, answers come last."""

import sys
from typing import Any


class Reporter:
    """doit's own interface; see doit.reporter.ConsoleReporter."""

    desc = "errors as lines, answers last"

    def __init__(self, outstream: Any, options: Any) -> None:
        self._out, self._options = outstream, options
        self._wanted: list[Any] = []
        self._failed = False

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        """Remembers which answers were asked for."""
        self._wanted = [tasks[name] for name in selected_tasks]

    def add_failure(self, _task: Any, fail: Any) -> None:
        """One line for a user's mistake; a mistake of ours keeps its traceback."""
        self._failed = True
        print((fail.get_msg() if fail.traceback else fail.message).rstrip(), file=sys.stderr)

    def runtime_error(self, msg: str) -> None:
        self._failed = True
        print(msg, file=sys.stderr)

    def cleanup_error(self, exception: Any) -> None:
        print(exception.get_msg(), file=sys.stderr)

    def complete_run(self) -> None:
        """The answers."""

    def get_status(self, task: Any) -> None: ...

    def execute_task(self, task: Any) -> None: ...

    def add_success(self, task: Any) -> None: ...

    def skip_uptodate(self, task: Any) -> None: ...

    def skip_ignore(self, task: Any) -> None: ...

    def teardown_task(self, task: Any) -> None: ...
