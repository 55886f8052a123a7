"""The answers of commands: the text that each prints when its task is done."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from toolchain.spec.errors import fail, lines
from toolchain.tasks.actions.paths import explain_file, infer_file, lengths_text_file, report_file, summary_file, verdict_file
from toolchain.tasks.stage import Job, Step

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
    from toolchain.report.costs import CostTable
    from toolchain.report.explain_text import costs_text
    from toolchain.report.region_use import RegionUse
    from toolchain.report.summary_text import operations_text
    from toolchain.spec.typed_json import from_json
    from toolchain.tasks.actions.report import BETWEEN

    data, width = _json(report_file(job)), shutil.get_terminal_size().columns
    costs = costs_text(from_json(CostTable, data["costs"]), True, width)
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


def _json(text: Path) -> Mapping[str, Any]:
    """The JSON beside a text."""
    from toolchain.tasks.actions.paths import read_result

    found: Mapping[str, Any] = read_result(text.with_suffix(".json"), json.loads)
    return found


def infer_answer(job: Job) -> str:
    """Accuracy three ways, the cost of quantisation, and cycles."""
    from toolchain.accuracy.closeness import read_inference
    from toolchain.accuracy.measure import GOOD
    from toolchain.graph.quantisation.ranges import MADE_UP, calibration_text
    from toolchain.tasks.actions.paths import read_result

    found = read_result(infer_file(job), read_inference)
    lines = [f"{job.model} on {job.machines}, {found.images} {found.kind} samples"]
    labelled = any(right is not None for right in found.right.values())
    lines += [f"  {name:11}{_share(right)}{_remark(name)}" for name, right in found.right.items()] if labelled else []
    task = found.task.get("emulator")
    lines += [f"  task       {task.text}"] if task else []
    lines += ["  task       not measured: the model's file names no task, and its samples have no labels"] if not task and not labelled else []
    lines += [_exact(found)]
    close = found.closeness
    lines += [f"  integers against the file: {close.text()}"] if close.text() else []
    lines += [f"  ONNX Runtime does not take the file itself ({found.reference}); its first stage stands in"] if found.reference else []
    lines += [f"  cycles     {_cycles(found)}", f"  calibrated {calibration_text(found.calibration)}"]
    lines += [f"  warning: {text}" for text in close.warnings(task is not None and task.share >= GOOD) if found.calibration != MADE_UP]
    told = found.kind == MADE_UP and found.calibration != MADE_UP
    lines += ["  warning: the samples are made up, so figures of accuracy say little"] if told else []
    return "\n".join(lines)


def _exact(found: "Inference") -> str:
    """Whether outputs are equal; how near they are on a machine in floating point, which `verify` judges sum by sum."""
    if found.exact or found.distance is None:
        return f"  exact      the emulator is {'equal to' if found.exact else 'DIFFERENT FROM'} the integers in ONNX Runtime, in every output"
    return (
        f"  exact      no: in floating point, outputs are up to {found.distance:.2g} from ONNX Runtime's; `verify` says whether that is near enough"
    )


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


Answer = Callable[[Job], str]


@dataclass(frozen=True)
class Command:
    """stage: the last one that it needs. answer: the text that a user reads afterwards; doit's workers must be able to send it."""

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

JOINED = Command("lengths", partial(text_answer, lengths_text_file))
"""The end of a build of several lengths."""


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
    return f"{at}: {text}" if (at := step.job.at) and not step.job.variables.lengths else text
