"""What a user reads when a task is done: short texts made of the files that the stages left."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolchain.tasks.actions.paths import infer_file
from toolchain.tasks.stage import Job


def text_answer(file: Callable[[Job], Path], job: Job) -> str:
    """The text of a file that a stage left."""
    return file(job).read_text().rstrip()


def infer_answer(job: Job) -> str:
    """Accuracy three ways, and cycles."""
    found: dict[str, Any] = json.loads(infer_file(job).read_text())
    lines = [f"{job.model} on {job.target.label}, {found['images']} {found['kind']} images"]
    lines += [f"  {name:9}{_share(right)}{_remark(name, found['exact'])}" for name, right in found["right"].items()]
    return "\n".join([*lines, f"  cycles   {_cycles(found)}"])


def _share(right: float | None) -> str:
    return f"{100 * right:6.2f} % right" if right is not None else " without labels"


def _remark(name: str, exact: bool) -> str:
    if name == "emulator":
        return f", {'equal to' if exact else 'DIFFERENT FROM'} the integers in every output"
    return " in ONNX Runtime"


def _cycles(found: dict[str, Any]) -> str:
    images = found["images_per_run"]
    several = f"{images} images" if images > 1 else "one image"
    speed = f"{found['machine_ms']:.3f} ms at {found['clock_khz'] / 1000:g} MHz; {found['total_ms']:.3f} ms with the host's part"
    return f"{found['cycles']:,.0f} for {several}, {speed}"
