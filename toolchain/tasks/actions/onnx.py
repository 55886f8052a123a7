"""The model as an ONNX file with its weights beside it."""

import json
from collections.abc import Mapping
from pathlib import Path

from toolchain.models.build import build_model
from toolchain.models.load import load_model
from toolchain.models.model import Model, Stored
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic
from toolchain.spec.suggest import nearest
from toolchain.tasks.actions.paths import onnx_file, sizes_file
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def make_onnx(step: Step, say: Say) -> Made:
    """Raises UserError of a model file that is wrong, E0807 for an ONNX file that is none, E0905 for a dimension that it does not have."""
    dims = dict(step.job.variables.dims)
    say("reading the model")
    model = load_model(str(step.job.path), dims)
    known = _open_sizes(model)
    _check_names(model, known, dims)
    say("copying" if isinstance(model.origin, Stored) else "making the weights")
    built, path, sizes = build_model(model, step.folder), onnx_file(step.job), sizes_file(step.job)
    names: list[str] = json.loads(built.with_suffix(".stamp.json").read_text())["files"]
    built.replace(path)
    write_atomic(sizes, json.dumps(dict(sorted((known | dims).items()))).encode())
    weights = [step.folder / name for name in names if name != built.name]
    return Made([path, *weights, sizes], _sources(model))  # not the stamp, which the receipt replaces: it changes with code that changes nothing


def _open_sizes(model: Model) -> dict[str, int]:
    """What the model file says of dimensions that its ONNX file leaves open."""
    if not isinstance(model.origin, Stored):
        return {}
    from toolchain.models.stored import open_sizes

    return open_sizes(model.origin.file, model.inputs)


def _check_names(model: Model, known: Mapping[str, int], dims: Mapping[str, int]) -> None:
    """Before anything is made: the import would tell as well, but then files of that name are there already."""
    place = str(model.origin.file if isinstance(model.origin, Stored) else model.path)
    for name in dims:
        if name not in known:
            hint = nearest(name, known) or (f"open: {', '.join(known)}" if known else "every dimension has a number already")
            raise fail("E0905", f"no dimension of the inputs is called '{name}'", hint=hint, place=place)


def _sources(model: Model) -> list[Path]:
    if not isinstance(model.origin, Stored):
        return []
    from toolchain.models.stored import external_files

    return [model.origin.file, *external_files(model.origin.file)]
