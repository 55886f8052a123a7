"""doit's side of the tasks: the plan as tasks, the look of a run (one line of progress a stage, errors on standard error, answers last), `task_model`
for a dodo.py, `run_task` for the console script, and `doit help`, `info` and `forget`.

doit's own commands know neither our variables nor our receipts. Receipts decide which tasks are up to date, so doit's own database stays empty.
"""

import atexit
import gc
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from doit import doit_cmd
from doit.cmd_base import ModuleTaskLoader
from doit.cmd_forget import Forget
from doit.cmd_help import Help
from doit.cmd_info import Info
from doit.doit_cmd import DoitMain
from doit.exceptions import InvalidTask, TaskFailed

from toolchain.process import rare_collections, stop_if_interrupted
from toolchain.spec.errors import UserError, one_line
from toolchain.tasks.answers import COMMANDS, JOINED, Command, answer_of
from toolchain.tasks.folders import Claims, clean_steps, forget_plan
from toolchain.tasks.plan import Plan, info_text, make_plan
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.variables import TASKS, variables_text
from toolchain.tasks.work import fulfil

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


Task = Mapping[str, object]
"""A task as doit reads it."""


def tasks_of(plan: Plan, claims: Claims) -> Iterator[Task]:
    """A task for each stage; the command that a stage has no name for ends with it. claims: of the folders to build in."""
    known = {step.stage.name: step.stage.doc for step in plan.every}
    docs = {**known, **TASKS}
    yield from ({"basename": name, "name": None, "doc": doc} for name, doc in docs.items())
    steps = {name_of(step): step for step in plan.every}
    yield from (_task(step, claims) for step in steps.values())
    for name, command in COMMANDS.items():
        if name != command.stage:
            yield from (_alias(name, command, each[command.stage], each.values()) for each in plan.steps)
    yield from (_alias("build", JOINED, step, [step]) for step in plan.joined)


def _alias(name: str, command: Command, last: Step, every: Iterable[Step]) -> Task:
    """Cleaning it takes away all that was made of the model: whatever is not a part of it was made from it."""
    meta = {ANSWER: partial(answer_of, command.answer, last)}
    return {
        "basename": name,
        "name": _key(last),
        "actions": None,
        "task_dep": [name_of(last)],
        "doc": TASKS[name],
        "meta": meta,
        "io": {"capture": False},
        "clean": [(remove, [tuple(every)])],
    }


def name_of(step: Step) -> str:
    """As doit knows the step."""
    return f"{step.stage.name}:{step.job.label if step.stage.of_model else _key(step)}"


def _key(step: Step) -> str:
    return f"{step.job.label}:{step.job.machines}"


def _task(step: Step, claims: Claims) -> Task:
    stage, _, name = name_of(step).partition(":")
    command = COMMANDS.get(stage)
    return {
        "basename": stage,
        "name": name,
        "actions": [(_action(step, claims), list[object]())],
        "uptodate": [_current(step)],
        "task_dep": [name_of(before) for before in step.before],
        "doc": TASKS.get(stage, step.stage.doc),
        "meta": {ANSWER: partial(answer_of, command.answer, step)} if command else None,
        "io": {"capture": False},
        "clean": [(remove, [(step,)])],
    }


def remove(steps: Iterable[Step], dryrun: bool) -> None:
    """Cleans steps, for doit."""
    for path in clean_steps(steps, dryrun):
        print(f"{'would remove' if dryrun else 'removed'} {path}", file=sys.stderr)


def _current(step: Step) -> Callable[[], bool]:
    def current() -> bool:
        return not step.changes()

    return current


def _action(step: Step, claims: Claims) -> Callable[[], object]:
    def action() -> object:
        try:
            with tell(step.title, step.changes()) as progress:
                claims.hold(step.job)
                fulfil(step, progress)
        except UserError as error:
            return TaskFailed("\n".join(diagnostic.render() for diagnostic in error.diagnostics))
        return None

    return action


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
