"""The plan as tasks for doit: what is up to date is decided by receipts, so doit's own database stays empty."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from toolchain.spec.errors import UserError, fail
from toolchain.tasks.actions.paths import summary_file, verdict_file
from toolchain.tasks.answers import explain_answer, infer_answer, report_answer, text_answer
from toolchain.tasks.claims import Claims
from toolchain.tasks.clean import clean_steps
from toolchain.tasks.names import TASKS
from toolchain.tasks.plan import Plan
from toolchain.tasks.reporter import ANSWER, tell
from toolchain.tasks.stage import Job, Step
from toolchain.tasks.work import fulfil

Answer = Callable[[Job], str]


@dataclass(frozen=True)
class Command:
    """stage: the last one that it needs. answer: what a user reads afterwards; doit's workers must be able to send it."""

    stage: str
    answer: Answer


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "build": Command("summary", partial(text_answer, summary_file)),
        "infer": Command("infer", infer_answer),
        "verify": Command("verify", partial(text_answer, verdict_file)),
        "report": Command("report", report_answer),
        "explain": Command("explain", explain_answer),
    }
)


def tasks_of(plan: Plan, claims: Claims) -> Iterator[dict[str, Any]]:
    """A task for each stage; the command that a stage has no name for ends with it. claims: of the folders to build in."""
    known = {step.stage.name: step.stage.doc for steps in plan.steps for step in steps.values()}
    docs = {**known, **TASKS}
    yield from ({"basename": name, "name": None, "doc": doc} for name, doc in docs.items())
    steps = {name_of(step): step for steps in plan.steps for step in steps.values()}
    yield from (_task(step, claims) for step in steps.values())
    for name, command in COMMANDS.items():
        if name != command.stage:
            yield from (_alias(name, command, each[command.stage], each.values()) for each in plan.steps)


def _alias(name: str, command: Command, last: Step, every: Iterable[Step]) -> dict[str, Any]:
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


def _task(step: Step, claims: Claims) -> dict[str, Any]:
    stage, _, name = name_of(step).partition(":")
    command = COMMANDS.get(stage)
    return {
        "basename": stage,
        "name": name,
        "actions": [(_action(step, claims), [])],
        "uptodate": [_current(step)],
        "task_dep": [name_of(before) for before in step.before],
        "doc": TASKS.get(stage, step.stage.doc),
        "meta": {ANSWER: partial(answer_of, command.answer, step)} if command else None,
        "io": {"capture": False},
        "clean": [(remove, [(step,)])],
    }


def answer_of(answer: Answer, step: Step) -> str:
    """The answer, if all that it rests on is still as it was built. Raises UserError E1206: files are gone, or are of something else."""
    try:
        text = answer(step.job)
    except (OSError, ValueError):
        text = ""
    changes = [change for each in step.chain for change in each.changes()]
    if changes or not text:
        raise fail(
            "E1206", f"what was built is no longer as it was: {changes[0] if changes else step.folder}", hint="build again", place=str(step.home)
        )
    return text


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
        from doit.exceptions import TaskFailed

        try:
            with tell(step.title, step.changes()) as say:
                claims.hold(step.job)
                fulfil(step, say)
        except UserError as error:
            return TaskFailed("\n".join(diagnostic.render() for diagnostic in error.diagnostics))
        return None

    return action
