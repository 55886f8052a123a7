"""What benches that build models share: a task as a user runs it, and what it left."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolchain.schedule.backend import Backend
    from toolchain.schedule.regions.region import Region

ROOT = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-m", "toolchain.cli")
LIMIT = 3600.0
"""Seconds for one command."""


def run(folder: Path, task: str, model: str, machine: str, *more: str, seed: str = "0") -> str:
    """Says in one line what is wrong after the command; empty where all is well. more: further variables."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        command = words_of(task, model, machine, *more)
        done = subprocess.run(command, cwd=folder, env=environment(seed), capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"{task} takes longer than {LIMIT:.0f} s"
    if not done.returncode:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\bE\d{4} ", line)] or lines[-1:]
    return f"{task}: {errors[0] if errors else 'failed without a word'}"


def words_of(task: str, model: str, machine: str, *more: str) -> list[str]:
    """The command of a task. more: further variables."""
    return [*COMMAND, task, f"target={machine}", f"model={model}", *more]


def home_of(folder: Path, model: str, machine: str, *more: str, stage: str = "bundle") -> Path:
    """The folder of a stage of such a command."""
    from toolchain.tasks.plan import make_plan

    folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):  # folders are named by paths from there
        job = make_plan({"target": machine, "model": model, **dict(word.split("=", 1) for word in more)}).jobs[0]
        return folder / job.home(stage)


def regions_on(folder: Path, model: str, machine: str, **more: str) -> "list[tuple[Backend, Region]]":
    """The regions of a network's graph that the machine computes with instructions, made in `folder` without a schedule. more: further variables."""
    from toolchain.schedule.regions.region import Region
    from toolchain.tasks.actions.program import regions_of
    from toolchain.tasks.plan import make_plan
    from toolchain.tasks.work import perform

    plan = make_plan({"target": machine, "model": model, **more}, folder)
    for name in ("onnx", "calibration", "graph"):
        perform(plan.steps[0][name], lambda _: None)
    return [(backend, region) for backend, region in regions_of(plan.jobs[0]).regions if isinstance(region, Region)]


def environment(seed: str = "0") -> dict[str, str]:
    """Variables of a command that runs this checkout. seed: of its hashes."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    return os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": seed}


def left(job: Path, *parts: str) -> Any:
    """A JSON file in the folder of a model on a machine; None where it is not there."""
    path = job.joinpath(*parts)
    return json.loads(path.read_text()) if path.is_file() else None


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int]) -> list[str]:
    """A table with columns as wide as they must be; those in `texts` to the left, numbers to the right."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
    lines = [
        "| " + " | ".join(c.ljust(w) if k in texts else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))) + " |" for row in cells
    ]
    rule = "|" + "|".join("-" * (w + 2) if k in texts else "-" * (w + 1) + ":" for k, w in enumerate(widths)) + "|"
    return [lines[0], rule, *lines[1:]]
