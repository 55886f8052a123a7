"""Runs a model's samples three ways: the file as the user gave it, as integers in ONNX Runtime, and as the machine does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.accuracy.closeness import Closeness, Inference, closeness_of, inference_text
from toolchain.accuracy.errors import measure_errors
from toolchain.accuracy.measure import check_task, measure_task, right_share
from toolchain.graph.calibration.ranges import calibration_kind
from toolchain.graph.calibration.table import sample_at, sample_count
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import read_stage
from toolchain.models.model import Model, Recorded
from toolchain.models.samples import Labels, calibration_samples, labelled_samples
from toolchain.passes.truth import Given, open_given
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, open_bundle
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import blaming, bundle_file, graph_file, import_file, infer_file, machines_of, model_of, onnx_file
from toolchain.tasks.receipts import Seen, seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import stage_before
from toolchain.verify.ladder import stored_ranges

Array = NDArray[Any]
Results = list[dict[str, Array]]
MEASURED = 4
"""Samples on which the integers are held against floating point, tensor by tensor."""


@dataclass(frozen=True)
class Inputs:
    """samples: [count, *shape] by input. labels: the right class of each, where they are known. kind: where they come from."""

    samples: Mapping[str, Array]
    labels: Labels | None
    kind: str

    @property
    def count(self) -> int:
        return sample_count(self.samples)


def infer_model(step: Step, say: Say) -> Made:
    """Test samples where the model has some, else those that calibrate it. Raises UserError E0808 (samples), E0812 (task), E0910, E11xx."""
    job = step.job
    model = model_of(job)
    inputs, sources = _inputs(model)
    place = str(onnx_file(job))
    with blaming(job):
        given = open_given(onnx_file(job), import_file(job), place)
        say("the file in ONNX Runtime")
        floats = [given.run(sample_at(inputs.samples, number), place) for number in range(inputs.count)]
        if model.task is not None:
            check_task(model.task, floats[0], str(model.path), sample_at(inputs.samples, 0))
        say("as integers")
        session = open_session(graph_file(job), optimise=False)
        integers = [run_session(session, sample_at(inputs.samples, number), place=place) for number in range(inputs.count)]
        say("integers beside floating point")
        close = _closeness(job, given, inputs)
    say(f"{inputs.count} samples on the emulator")
    bundle = read_bundle(bundle_file(job))
    executor = open_bundle(bundle, machines_of(job), EmulatorDevice(), str(bundle_file(job)), optimise=False)
    emulated = executor.run_samples(inputs.samples)
    found = _inference(model, inputs, (floats, integers, emulated), executor, close, given.refusal, calibration_kind(read_stage(graph_file(job))))
    write_atomic(infer_file(job), inference_text(found).encode())
    return Made([infer_file(job)], sources)


def _inputs(model: Model) -> tuple[Inputs, Mapping[Path, Seen]]:
    """And the files that they come from."""
    recorded = model.test.samples if model.test else model.calibration
    files = seen(recorded.file) if isinstance(recorded, Recorded) else {}
    tested = labelled_samples(model)
    if tested is not None:
        return Inputs(tested[0], tested[1], "test"), files
    return Inputs(calibration_samples(model), None, "calibration" if files else "made-up"), files


def _closeness(job: Job, given: Given, inputs: Inputs) -> Closeness:
    """Measured on a few samples: every tensor is read."""
    folder = graph_file(job).parent
    floating, integer = (read_stage(stage_before(folder, *names)) for names in (("fuse", "partition"), ("partition",)))
    few = {name: array[:MEASURED] for name, array in inputs.samples.items()}
    return closeness_of(measure_errors(given.run, floating, integer, few, stored_ranges(machines_of(job))))


def _inference(
    model: Model, inputs: Inputs, ways: tuple[Results, Results, Results], executor: Executor, close: Closeness, refusal: str, calibration: str
) -> Inference:
    """Accuracy by labels, agreement with the file by the model's task, and whether the emulator equals the integers in every bit."""
    floats, integers, emulated = ways
    names = ("float", "integer", "emulator")
    right = {name: right_share(model.task, results, _listed(inputs.labels)) for name, results in zip(names, ways, strict=True)}
    given = [sample_at(inputs.samples, number) for number in range(inputs.count)]
    pairs = zip(names[1:], ways[1:], strict=True)
    measured = {name: measure_task(model.task, floats, results, given) for name, results in pairs} if model.task else {}
    exact = all(np.array_equal(one[name], other[name]) for one, other in zip(integers, emulated, strict=True) for name in one)
    run, clocks = executor.modelled(), {machine.timing.clock_khz for machine in executor.machines.values()}
    clock = clocks.pop() if len(clocks) == 1 else 0
    return Inference(
        inputs.count, inputs.kind, right, measured, exact, run.samples, run.cycles, run.execute_ms, run.total_ms, clock, close, refusal, calibration
    )


def _listed(labels: Labels | None) -> Sequence[int] | None:
    return None if labels is None else labels.tolist()
