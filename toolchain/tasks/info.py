"""The dependencies of each stage of a plan, whether it is up to date, and where its files are."""

from collections.abc import Iterator
from pathlib import Path

from toolchain.tasks.plan import Plan
from toolchain.tasks.stage import Step

HEAD = 12


def info_text(plan: Plan) -> str:
    """One paragraph a stage, in the order in which they run."""
    return "\n\n".join(stage_text(step) for steps in plan.steps for step in steps.values())


def stage_text(step: Step) -> str:
    """State, dependencies and place of one stage."""
    rows = [f"  {name:<{HEAD}}{text}" for name, text in _rows(step) if text]
    return "\n".join([f"{step.title}: {state_text(step)}", *rows])


def state_text(step: Step) -> str:
    """Whether it would run now, and why."""
    waiting = [before.stage.name for before in step.chain[:-1] if before.changes()]
    if waiting:
        return f"to be made after {', '.join(waiting)}"
    changes = step.changes()
    return f"to be made: {', '.join(changes)}" if changes else "up to date"


def _rows(step: Step) -> Iterator[tuple[str, str]]:
    stage, receipt = step.stage, step.receipt()
    yield "what", stage.doc
    yield "after", ", ".join(stage.after)
    yield "model file", str(step.job.path) if stage.reads_model else ""
    yield "other files", ", ".join(receipt.read) if receipt else ""
    yield "machine", "" if stage.of_model else "every section, kernels and templates" + ", notes" * stage.notes
    yield "variables", ", ".join({"dims": "dim"}.get(name, name) for name in stage.options)
    yield "code", ", ".join(stage.packages)
    yield "libraries", ", ".join(f"{name} {step.code[name]}" for name in stage.libraries)
    yield "leaves", f"{step.folder}{_count(step.folder, list(receipt.written)) if receipt else ''}"


def _count(folder: Path, written: list[str]) -> str:
    size = sum((folder / name).stat().st_size for name in written if (folder / name).is_file())
    return f", {len(written)} {'file' if len(written) == 1 else 'files'}, {size:,} bytes"
