"""What a user reads when a task is done: short texts made of the files that the stages left."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolchain.tasks.actions.paths import explain_file, infer_file, report_file
from toolchain.tasks.stage import Job

BETWEEN = "\n\n"
"""What stands between a summary and its table."""


def text_answer(file: Callable[[Job], Path], job: Job) -> str:
    """The text of a file that a stage left."""
    return file(job).read_text().rstrip()


def report_answer(job: Job) -> str:
    """The file's text; on a terminal its table is ruled."""
    plain = text_answer(report_file, job)
    if not sys.stdout.isatty():
        return plain
    from toolchain.report.summary_text import operations_text

    table = operations_text(_json(report_file(job)), True, shutil.get_terminal_size().columns)
    return f"{plain.partition(BETWEEN)[0]}{BETWEEN}{table.rstrip()}"


def explain_answer(job: Job) -> str:
    """The same for `explain`."""
    if not sys.stdout.isatty():
        return text_answer(explain_file, job)
    from toolchain.report.explain import explain_text, read_placement

    data = _json(explain_file(job))
    return explain_text(read_placement(data), data["model"], data["machine"], True, shutil.get_terminal_size().columns).rstrip()


def _json(text: Path) -> dict[str, Any]:
    """What stands beside a text."""
    found: dict[str, Any] = json.loads(text.with_suffix(".json").read_text())
    return found


def infer_answer(job: Job) -> str:
    """Accuracy three ways, the cost of quantisation, and cycles."""
    from toolchain.accuracy.closeness import read_closeness
    from toolchain.accuracy.measure import GOOD

    found: dict[str, Any] = json.loads(infer_file(job).read_text())
    lines = [f"{job.model} on {job.target.label}, {found['images']} {found['kind']} samples"]
    lines += [f"  {name:9}{_share(right)}{_remark(name, found['exact'])}" for name, right in found["right"].items()]
    task = found["task"].get("emulator")
    lines += [f"  task     {task['text']}"] if task else []
    close = read_closeness(found["closeness"])
    lines += [f"  integers against the file: {close.text()}"] if close.text() else []
    lines += [f"  ONNX Runtime does not take the file itself ({found['reference']}); its first stage stands in"] if found["reference"] else []
    lines += [f"  cycles   {_cycles(found)}"]
    lines += [f"  warning: {text}" for text in close.warnings(task is not None and task["share"] >= GOOD)]
    lines += ["  warning: the samples are made up, so figures of accuracy say little"] if found["kind"] == "made-up" else []
    return "\n".join(lines)


def _share(right: float | None) -> str:
    return f"{100 * right:6.2f} % right" if right is not None else " without labels"


def _remark(name: str, exact: bool) -> str:
    if name == "emulator":
        return f", {'equal to' if exact else 'DIFFERENT FROM'} the integers in every output"
    return ", the file in ONNX Runtime" if name == "float" else " in ONNX Runtime"


def _cycles(found: dict[str, Any]) -> str:
    images = found["images_per_run"]
    several = f"{images} images" if images > 1 else "one image"
    speed = f"{found['machine_ms']:.3f} ms at {found['clock_khz'] / 1000:g} MHz; {found['total_ms']:.3f} ms with the host's part"
    return f"{found['cycles']:,.0f} for {several}, {speed}"
