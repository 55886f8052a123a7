"""A real network three ways, and as ONNX Runtime's own tool quantises it: the figures of its task."""

import contextlib
import io
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolchain.accuracy.measure import measure_task
from toolchain.graph.quantisation.table import sample_at, sample_count
from toolchain.graph.session import open_session, run_session
from toolchain.models.load import load_model
from toolchain.models.model import Model, Recorded
from toolchain.models.samples import calibration_samples, labelled_samples
from toolchain.passes.truth import open_given
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import bundle_file, graph_file, import_file, machines_of, onnx_file
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import Job

Array = np.typing.NDArray[Any]
Results = list[dict[str, Array]]
FORMS: Mapping[str, Mapping[str, Any]] = {
    "tensor": {},
    "channel": {"per_channel": True},
    "products": {"op_types_to_quantize": ["MatMul", "Conv"]},
}
"""Options of ONNX Runtime's static quantiser; the rest as it comes."""


@dataclass(frozen=True)
class Figure:
    """share: 0 to 1, of the task, or the least correlation of an output where the model names no task. text: in words, or why there is none."""

    share: float | None
    text: str


def job_of(folder: Path, model: str, machine: str) -> Job:
    """Where a build in `folder` left its files."""
    return make_plan({"target": machine, "model": model}, folder / "build").jobs[0]


def measure(job: Job, pictures: int) -> dict[str, Figure]:
    """By the name of the way: the integer model in ONNX Runtime, the emulator, and ONNX Runtime's quantiser in its forms."""
    model = load_model(str(job.path))
    samples = test_samples(model, pictures)
    count = sample_count(samples)
    given = open_given(onnx_file(job), import_file(job), str(job.path))
    floats = [given.run(sample_at(samples, k)) for k in range(count)]
    integer = open_session(graph_file(job), optimise=False)
    found: dict[str, Results] = {"integers": [run_session(integer, sample_at(samples, k)) for k in range(count)]}
    bundle = open_bundle(read_bundle(bundle_file(job)), machines_of(job), EmulatorDevice(), optimise=False)
    found["emulator"] = bundle.run_samples(samples)
    figures = {way: figure(model, floats, results, samples) for way, results in found.items()}
    same = all(np.array_equal(one[name], other[name]) for one, other in zip(*found.values(), strict=True) for name in one)
    figures["equal"] = Figure(float(same), "the emulator's outputs are the integer model's, bit for bit" if same else "the emulator's outputs DIFFER")
    return figures | {form: _quantised(job, model, form, floats, samples) for form in FORMS}


def test_samples(model: Model, count: int) -> dict[str, Array]:
    """The first `count` test samples by input; those that calibrate where the model has no others."""
    tested = labelled_samples(model)
    samples = tested[0] if tested else calibration_samples(model)
    return {name: array[:count] for name, array in samples.items()}


def figure(model: Model, floats: Results, results: Results, samples: Mapping[str, Array]) -> Figure:
    """Of the model's task, or how its outputs correlate with the file's."""
    if model.task is not None:
        measured = measure_task(model.task, floats, results, [sample_at(samples, k) for k in range(len(floats))])
        return Figure(measured.share, measured.text)
    names = [name for name in floats[0] if floats[0][name].dtype.kind == "f"]
    least = min(_correlation([one[name] for one in floats], [other[name] for other in results]) for name in names)
    return Figure(least, f"outputs correlate by {least:.4f} or more")


def _correlation(one: Sequence[Array], other: Sequence[Array]) -> float:
    a, b = (np.concatenate([array.ravel() for array in arrays]).astype(np.float64) for arrays in (one, other))
    if np.array_equal(a, b):
        return 1.0
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else 0.0


def _quantised(job: Job, model: Model, form: str, floats: Results, samples: Mapping[str, Array]) -> Figure:
    """The user's file by ONNX Runtime's static quantiser; kept beside the model's stages, as it depends on no machine."""
    path = job.home("onnx") / "onnxruntime" / f"{form}.onnx"
    told = path.with_suffix(".txt")
    if not path.is_file() and not told.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        if refusal := _quantise(onnx_file(job), path, model, FORMS[form]):
            told.write_text(refusal)
    if told.is_file():
        return Figure(None, told.read_text())
    try:
        session = open_session(path, optimise=False)  # its own rewriting fails on some files that its own tool makes
        return figure(model, floats, [run_session(session, sample_at(samples, k)) for k in range(len(floats))], samples)
    except UserError as error:
        return Figure(None, str(error.diagnostics[0].message))


def _quantise(source: Path, path: Path, model: Model, options: Mapping[str, Any]) -> str:
    """Why the tool does not take a model; empty where it does."""
    import onnx
    import onnxruntime.quantization as tool
    from onnxruntime.quantization.shape_inference import quant_pre_process

    given = onnx.load(source)
    if any(node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") for node in given.graph.node):
        return "quantised already"
    if not isinstance(model.calibration, Recorded):
        return "no samples to calibrate"
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        whole, ready = Path(folder) / "whole.onnx", Path(folder) / "ready.onnx"
        onnx.save(given, whole)  # weights inside: the tool loses those that lie beside a file
        try:
            quant_pre_process(whole, ready, skip_symbolic_shape=True)
            tool.quantize_static(ready, path, reader_of(calibration_samples(model), tool.CalibrationDataReader), **options)
        except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError, NotImplementedError, *_refusals()) as error:
            path.unlink(missing_ok=True)
            return f"{type(error).__name__} {' '.join(str(error).split())}"[:150]
    return ""


def _refusals() -> tuple[type[Exception], ...]:
    import onnx
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")
    return (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, *(getattr(state, name) for name in names))


def reader_of(samples: Mapping[str, Array], kind: Any) -> Any:
    """Feeds samples to ONNX Runtime's quantiser. kind: its class of readers."""
    left = iter([sample_at(samples, k) for k in range(sample_count(samples))])
    following: Callable[[object], Any] = lambda _: next(left, None)  # noqa: E731
    return type("Reader", (kind,), {"get_next": following})()
