"""The model as an ONNX file with its weights beside it."""

import json
from dataclasses import asdict
from pathlib import Path

from toolchain.models.build import build_model
from toolchain.models.load import load_model
from toolchain.models.model import Model, Stored
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import onnx_file, preparations_file, sizes_file
from toolchain.tasks.receipts import Seen, seen
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def make_onnx(step: Step, say: Say) -> Made:
    """Raises UserError of a model file that is wrong, E0807 for an ONNX file that is none, E0904 and E0905 for its dimensions."""
    say("reading the model")
    model = load_model(str(step.job.path), dict(step.job.variables.dims))
    sources = _sources(model)
    say("copying" if isinstance(model.origin, Stored) else "making the weights")
    built, path, sizes = build_model(model, step.folder), onnx_file(step.job), sizes_file(step.job)
    names: list[str] = json.loads(built.with_suffix(".stamp.json").read_text())["files"]
    built.replace(path)
    write_atomic(sizes, json.dumps(dict(sorted(_sizes(model).items()))).encode())
    preparations = {name: asdict(entry.preparation) for name, entry in sorted(model.inputs.items()) if entry.preparation}
    write_atomic(preparations_file(step.job), json.dumps(preparations).encode())
    weights = [step.folder / name for name in names if name != built.name]
    written = [path, *weights, sizes, preparations_file(step.job)]
    return Made(written, sources)  # not the stamp, which the receipt replaces: it changes with code that changes nothing


def _sizes(model: Model) -> dict[str, int]:
    """The sizes of dimensions that a stored file leaves open."""
    if not isinstance(model.origin, Stored):
        return {}
    from toolchain.models.sources import open_sizes

    return open_sizes(model.origin.file, model.shapes)


def _sources(model: Model) -> dict[Path, Seen]:
    if not isinstance(model.origin, Stored):
        return {}
    from toolchain.models.sources import external_files

    file = seen(model.origin.file)  # before it says which others there are
    return file | seen(*external_files(model.origin.file))
