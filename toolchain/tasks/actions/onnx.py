"""The model as an ONNX file with its weights beside it."""

import json
from pathlib import Path

from toolchain.models.build import build_model
from toolchain.models.load import load_model
from toolchain.models.model import Stored
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def make_onnx(step: Step, say: Say) -> Made:
    """Raises UserError of a model file that is wrong, E0807 for an ONNX file that is none."""
    say("reading the model")
    model = load_model(str(step.job.path))
    say("making the weights" if not isinstance(model.origin, Stored) else "copying")
    path = build_model(model, step.folder)
    stamp = path.with_suffix(".stamp.json")
    files = [step.folder / name for name in json.loads(stamp.read_text())["files"]]
    return Made([*files, stamp], _sources(model.origin.file) if isinstance(model.origin, Stored) else ())


def _sources(file: Path) -> list[Path]:
    from toolchain.models.stored import external_files

    return [file, *external_files(file)]
