"""The look of a run: doit's settings, one line of progress a stage, errors on standard error, answers last."""

import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from toolchain.process import stop_if_interrupted
from toolchain.spec.errors import UserError, one_line
from toolchain.tasks.stage import Say

ANSWER = "answer"
"""Key of a task's metadata: a function whose text is the answer to it."""


class Asked(Protocol):
    """A task of doit. has_subtask: it is a name for those that it depends on."""

    name: str
    meta: Mapping[str, Callable[[], str]] | None
    has_subtask: bool
    task_dep: Sequence[str]


class Failure(Protocol):
    """A failure of doit. traceback: where a mistake of ours was made."""

    message: str
    traceback: Sequence[str]

    def get_msg(self) -> str:
        """The message and its traceback."""
        ...


class Reporter:
    """doit's own interface; see doit.reporter.ConsoleReporter."""

    desc = "errors as lines, answers last"

    def __init__(self, _outstream: object, _options: object) -> None:
        self._wanted: list[tuple[str, Callable[[], str]]] = []
        self._done: set[str] = set()

    def initialize(self, tasks: Mapping[str, Asked], selected_tasks: Sequence[str]) -> None:
        """Remembers which answers were asked for: those of tasks, and of tasks behind another name."""
        named = [tasks[name] for name in selected_tasks]
        inside = [tasks[name] for task in named if task.has_subtask for name in task.task_dep]
        self._wanted = [(task.name, task.meta[ANSWER]) for task in [*named, *inside] if task.meta and ANSWER in task.meta]

    def add_failure(self, _task: Asked, fail: Failure) -> None:
        """One line for a user's mistake; a mistake of ours keeps its traceback. Raises KeyboardInterrupt for a task that an interrupt made fail."""
        stop_if_interrupted()
        print((fail.get_msg() if fail.traceback else fail.message).rstrip(), file=sys.stderr)

    def runtime_error(self, msg: str) -> None:
        print(msg, file=sys.stderr)

    def cleanup_error(self, exception: Failure) -> None:
        print(exception.get_msg(), file=sys.stderr)

    def complete_run(self) -> None:
        """The answers, of whatever went well. Raises SystemExit, which doit lets pass, for one that cannot be given any more."""
        for name, answer in self._wanted:
            if name in self._done:
                try:
                    print(answer())
                except UserError as error:
                    print(error, file=sys.stderr)
                    raise SystemExit(1) from None

    def get_status(self, task: Asked) -> None: ...

    def execute_task(self, task: Asked) -> None: ...

    def add_success(self, task: Asked) -> None:
        self._done.add(task.name)

    def skip_uptodate(self, task: Asked) -> None:
        self._done.add(task.name)

    def skip_ignore(self, task: Asked) -> None: ...

    def teardown_task(self, task: Asked) -> None: ...


CONFIG: Mapping[str, object] = {"backend": "sqlite3", "dep_file": ":memory:", "reporter": Reporter, "verbosity": 2, "default_tasks": ["build"]}
"""No database: the receipts beside the files, written as each task ends, say which stages are up to date."""


SHOWN = 3
QUIET = 2.0
"""Seconds between two signs of life where standard error is no terminal."""


@contextmanager
def tell(title: str, changes: Sequence[str]) -> Generator[Say]:
    """Prints the step and the reason, then its seconds. Lines of the block name their step themselves, as in `fulfil`: it may be one before this.

    Everything goes to standard error: the answer alone is on standard output.
    """
    start, why = time.perf_counter(), _why(changes)
    if sys.stderr.isatty():
        with _status(f"{title} ({why})") as say:
            yield say
    else:
        print(one_line(f"{title} ({why}) ..."), file=sys.stderr, flush=True)
        yield _Paced().say
    print(f"{title}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def _why(changes: Sequence[str]) -> str:
    more = f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    return ", ".join(changes[:SHOWN]) + more


@contextmanager
def _status(title: str) -> Generator[Say]:
    from rich.console import Console

    with Console(stderr=True).status(f"{title} ...") as status:
        yield lambda text: status.update(one_line(f"{text} ..."))


class _Paced:
    """Lines, but none within QUIET seconds of the one before."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def say(self, text: str) -> None:
        now = time.perf_counter()
        if now - self._last >= QUIET:
            print(one_line(f"{text} ..."), file=sys.stderr, flush=True)
            self._last = now
