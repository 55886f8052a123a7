"""Takes away what the tasks of a plan made; files that somebody else put beside them stay."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from toolchain.spec.errors import fail
from toolchain.tasks.claims import GATE, NAME, OWNER, USER, locked
from toolchain.tasks.plan import Plan
from toolchain.tasks.stage import Step


def clean_plan(plan: Plan, dry: bool = False) -> list[Path]:
    """Removes the folders and receipts of every stage; with `dry` only says which. Raises UserError E0005."""
    return clean_steps((step for steps in plan.steps for step in steps.values()), dry)


def clean_steps(steps: Iterable[Step], dry: bool = False) -> list[Path]:
    """The folders and receipts that went, or would go. Raises UserError E0005 where the system refuses."""
    homes: dict[Path, list[Step]] = {}
    for step in steps:
        homes.setdefault(step.home, []).append(step)
    return [path for home, inside in homes.items() if home.is_dir() for path in _clean(home, inside, dry)]


def forget_plan(plan: Plan) -> list[Path]:
    """Takes away the receipts of every stage, so that the next build makes all of it again; the folders that had one. Raises UserError E0005."""
    found = [step for steps in plan.steps for step in steps.values() if step.receipt_path.exists()]
    try:
        for step in found:
            with locked(step.home):
                step.receipt_path.unlink(missing_ok=True)
    except OSError as error:
        raise fail("E0005", f"the system refused: {error.strerror}", place=str(error.filename)) from None
    return [step.folder for step in found]


def _clean(home: Path, steps: Iterable[Step], dry: bool) -> list[Path]:
    """Everything of the steps in one folder, and the folder where nothing else is left in it."""
    found = [path for step in steps for path in (step.folder, step.receipt_path) if path.exists()]
    if dry:
        return found
    try:
        with locked(home):
            for path in found:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        _fold(home)
    except OSError as error:
        raise fail("E0005", f"the system refused: {error.strerror}", place=str(error.filename or home)) from None
    return found


def _fold(home: Path) -> None:
    """Removes a folder that holds nothing but its locks, and the one around it where that is empty then."""
    found = [*home.iterdir()]
    if all(path.name in (NAME, GATE, OWNER) or path.name.startswith(USER) for path in found):
        for path in found:
            path.unlink(missing_ok=True)
        home.rmdir()
        if not any(home.parent.iterdir()):
            home.parent.rmdir()
