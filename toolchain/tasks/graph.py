"""The plan as tasks for doit: what is up to date is decided by receipts, so doit's own database stays empty."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolchain.spec.errors import UserError
from toolchain.tasks.plan import Plan
from toolchain.tasks.progress import tell
from toolchain.tasks.stage import Step
from toolchain.tasks.work import perform

COMMANDS: Mapping[str, tuple[str, str]] = {
    "build": ("graph", "the bundle: everything that the machine needs to run the model"),
}
"""By task: the stage that it ends with, and what it is."""


def tasks_of(plan: Plan) -> Iterator[dict[str, Any]]:
    """One task a step, and one for each command that ends with it."""
    seen: set[str] = set()
    for steps in plan.steps:
        for step in steps.values():
            if name_of(step) not in seen:
                seen.add(name_of(step))
                yield _task(step)
    for command, (stage, doc) in COMMANDS.items():
        yield {"basename": command, "name": None, "doc": doc}
        for steps in plan.steps:
            last = steps[stage]
            yield {"basename": command, "name": _key(last), "actions": None, "task_dep": [name_of(last)], "doc": doc}


def name_of(step: Step) -> str:
    """As doit knows the step."""
    return f"{step.stage.name}:{step.job.label if step.stage.of_model else _key(step)}"


def _key(step: Step) -> str:
    return f"{step.job.label}:{step.job.target.label}"


def _task(step: Step) -> dict[str, Any]:
    stage, _, name = name_of(step).partition(":")
    return {
        "basename": stage,
        "name": name,
        "actions": [(_action(step), [])],
        "uptodate": [_current(step)],
        "task_dep": [name_of(before) for before in step.before],
        "io": {"capture": False},
    }


def _current(step: Step) -> Callable[[], bool]:
    def current() -> bool:
        return not step.changes()

    return current


def _action(step: Step) -> Callable[[], object]:
    def action() -> object:
        from doit.exceptions import TaskFailed

        try:
            with tell(step.title, step.changes()) as say:
                perform(step, say)
        except UserError as error:
            return TaskFailed("\n".join(diagnostic.render() for diagnostic in error.diagnostics))
        return None

    return action
