"""Runs a model's images three ways: in floating point, as integers in ONNX Runtime, and as the machine does."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.graph.session import open_session, run_session
from toolchain.graph.stage_file import read_stage
from toolchain.models.load import load_model
from toolchain.models.model import Recorded
from toolchain.models.samples import Labels, calibration_samples, labelled_samples
from toolchain.passes.closeness import Closeness, closeness_of
from toolchain.passes.error_table import measure_errors
from toolchain.runtime.executor import load
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import blaming, bundle_file, graph_file, import_file, infer_file, machine_of, onnx_file
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import stage_before

Array = NDArray[Any]
Samples = Mapping[str, Array]
MEASURED = 4
"""Images on which the integers are held against floating point, tensor by tensor."""


@dataclass(frozen=True)
class Images:
    """samples: [count, ...] by input. labels: the right class of each, where they are known."""

    samples: Samples
    labels: Labels | None
    kind: str

    @property
    def count(self) -> int:
        return len(next(iter(self.samples.values())))


def infer_model(step: Step, say: Say) -> Made:
    """Test images where the model has some, else those that calibrate it. Raises UserError E0808 (samples), E0910, E11xx."""
    job = step.job
    images, sources = _images(job)
    say("in floating point")
    floating = _floating(job, images)
    say("as integers")
    integers = _in_onnx_runtime(open_session(graph_file(job)), images, str(graph_file(job)))
    say(f"{images.count} images on the emulator")
    executor = load(bundle_file(job), machine_of(job))
    outcome, modelled = executor.run(images.samples), executor.modelled()
    found = {
        "images": images.count,
        "kind": images.kind,
        "right": {name: _right(results, images) for name, results in _ways(floating, integers, outcome.outputs).items()},
        "exact": all(np.array_equal(integers[name], array) for name, array in outcome.outputs.items()),
        "closeness": asdict(_closeness(job, images)),
        "images_per_run": modelled.samples,
        "cycles": modelled.cycles,
        "machine_ms": modelled.execute_ms,
        "total_ms": modelled.total_ms,
        "clock_khz": executor.machine.timing.clock_khz,
    }
    write_atomic(infer_file(job), (json.dumps(found, indent=1) + "\n").encode())
    return Made([infer_file(job)], sources)


def _images(job: Job) -> tuple[Images, list[Any]]:
    """And the files that they come from."""
    model = load_model(str(job.path), dict(job.variables.dims))
    labelled = labelled_samples(model)
    if labelled is not None and model.test is not None:
        name = next(iter(model.inputs))
        return Images({name: labelled[0]}, labelled[1], "test"), [model.test.samples.file]
    sources = [model.calibration.file] if isinstance(model.calibration, Recorded) else []
    return Images(calibration_samples(model), None, "calibration"), sources


def _closeness(job: Job, images: Images) -> Closeness:
    """Measured on a few images: every tensor is read."""
    folder = graph_file(job).parent
    floating, integer = (read_stage(stage_before(folder, name)) for name in ("fuse", "partition"))
    few = {name: array[:MEASURED] for name, array in images.samples.items()}
    with blaming(job):
        return closeness_of(measure_errors(floating, integer, few))


def _floating(job: Job, images: Images) -> dict[str, Array]:
    """Of the graph's first stage: not every file that can be imported is one that ONNX Runtime takes (node names, versions)."""
    place = str(onnx_file(job))
    with blaming(job):
        return _in_onnx_runtime(open_session(import_file(job), place=place), images, place)


def _in_onnx_runtime(session: Any, images: Images, place: str) -> dict[str, Array]:
    """Results by output, one image after the other."""
    found = [run_session(session, {name: array[i : i + 1] for name, array in images.samples.items()}, place=place) for i in range(images.count)]
    return {name: np.concatenate([result[name] for result in found]) for name in found[0]}


def _ways(floating: Samples, integers: Samples, emulated: Samples) -> dict[str, Array]:
    """The first output of each."""
    name = next(iter(floating))
    return {"float": floating[name], "integer": integers[name], "emulator": emulated[name]}


def _right(results: Array, images: Images) -> float | None:
    """The share of images whose largest result is the right one."""
    if images.labels is None:
        return None
    found: NDArray[np.bool_] = results.reshape(len(results), -1).argmax(axis=1) == images.labels
    return float(found.mean())
