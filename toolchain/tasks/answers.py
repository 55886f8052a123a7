"""Answers to a user when a task is done: short texts made of the files that the stages left."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.spec.errors import lines
from toolchain.tasks.actions.paths import explain_file, infer_file, report_file
from toolchain.tasks.stage import Job

if TYPE_CHECKING:
    from toolchain.accuracy.closeness import Inference


def text_answer(file: Callable[[Job], Path], job: Job) -> str:
    """The text of a file that a stage left; names in it are the user's."""
    return lines(file(job).read_text().rstrip())


def report_answer(job: Job) -> str:
    """The file's text; on a terminal its tables are ruled."""
    plain = text_answer(report_file, job)
    if not sys.stdout.isatty():
        return plain
    from toolchain.report.costs import Costs
    from toolchain.report.explain_text import costs_text
    from toolchain.report.region_use import RegionUse
    from toolchain.report.summary_text import operations_text
    from toolchain.spec.typed_json import from_json
    from toolchain.tasks.actions.report import BETWEEN

    data, width = _json(report_file(job)), shutil.get_terminal_size().columns
    costs = costs_text(from_json(Costs, data["costs"]), True, width)
    regions = [from_json(RegionUse, region) for region in data["regions"]]
    operations = operations_text(regions, True, width)
    return BETWEEN.join([plain.partition(BETWEEN)[0], costs.rstrip(), operations.rstrip()])


def explain_answer(job: Job) -> str:
    """Answer `explain`."""
    if not sys.stdout.isatty():
        return text_answer(explain_file, job)
    from toolchain.report.explain import Explanation
    from toolchain.report.explain_text import explanation_text
    from toolchain.spec.typed_json import from_json

    found = from_json(Explanation, _json(explain_file(job)))
    return explanation_text(found, True, shutil.get_terminal_size().columns).rstrip()


def _json(text: Path) -> dict[str, Any]:
    """The JSON beside a text."""
    from toolchain.tasks.actions.paths import read_result

    found: dict[str, Any] = read_result(text.with_suffix(".json"), json.loads)
    return found


def infer_answer(job: Job) -> str:
    """Accuracy three ways, the cost of quantisation, and cycles."""
    from toolchain.accuracy.closeness import read_inference
    from toolchain.accuracy.measure import GOOD
    from toolchain.graph.calibration.ranges import MADE_UP, calibration_text
    from toolchain.tasks.actions.paths import read_result

    found = read_result(infer_file(job), read_inference)
    lines = [f"{job.model} on {job.machines}, {found.images} {found.kind} samples"]
    labelled = any(right is not None for right in found.right.values())
    lines += [f"  {name:11}{_share(right)}{_remark(name)}" for name, right in found.right.items()] if labelled else []
    task = found.task.get("emulator")
    lines += [f"  task       {task.text}"] if task else []
    lines += ["  task       not measured: the model's file names no task, and its samples have no labels"] if not task and not labelled else []
    lines += [f"  exact      the emulator is {'equal to' if found.exact else 'DIFFERENT FROM'} the integers in ONNX Runtime, in every output"]
    close = found.closeness
    lines += [f"  integers against the file: {close.text()}"] if close.text() else []
    lines += [f"  ONNX Runtime does not take the file itself ({found.reference}); its first stage stands in"] if found.reference else []
    lines += [f"  cycles     {_cycles(found)}", f"  calibrated {calibration_text(found.calibration)}"]
    lines += [f"  warning: {text}" for text in close.warnings(task is not None and task.share >= GOOD) if found.calibration != MADE_UP]
    told = found.kind == MADE_UP and found.calibration != MADE_UP
    lines += ["  warning: the samples are made up, so figures of accuracy say little"] if told else []
    return "\n".join(lines)


def _share(right: float | None) -> str:
    return f"{100 * right:.2f} % right" if right is not None else "not measured"


def _remark(name: str) -> str:
    return {"float": ", the file in ONNX Runtime", "integer": " in ONNX Runtime"}.get(name, "")


def _cycles(found: "Inference") -> str:
    images = found.images_per_run
    several = f"{images} images" if images > 1 else "one image"
    clock = f" at {found.clock_khz / 1000:g} MHz" if found.clock_khz else ""
    speed = f"{found.machine_ms:.3f} ms{clock}; {found.total_ms:.3f} ms with the host's part"
    return f"{found.cycles:,.0f} for {several}, {speed}"
