"""Correctness of a build on its machine: inference three ways, and the verification ladder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolchain.accuracy.closeness import Closeness, Inference, closeness_of, inference_text
from toolchain.accuracy.errors import measure_errors
from toolchain.accuracy.measure import check_task, measure_task, right_share
from toolchain.codegen.graphs import tool_path
from toolchain.graph.quantisation.ranges import MADE_UP, calibration_kind, calibration_text
from toolchain.graph.quantisation.table import sample_at, sample_count
from toolchain.graph.session import open_session, run_session
from toolchain.graph.states import each_step
from toolchain.graph.store import read_stage
from toolchain.models.model import Model
from toolchain.models.samples import Labels, labelled_samples, sample_files
from toolchain.models.states import model_sequences
from toolchain.passes.truth import Given, open_given
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, open_bundle
from toolchain.runtime.step_session import open_steps
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import (
    blaming,
    bundle_file,
    graph_file,
    import_file,
    infer_file,
    machines_of,
    model_of,
    onnx_file,
    subgraphs_file,
    verdict_file,
    write_report,
)
from toolchain.tasks.actions.states import samples_of, sequences_of
from toolchain.tasks.receipts import SeenFile, seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import integer_stage, read_built, stage_before, stored_ranges
from toolchain.verify.compare import distance
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_data, verdict_text

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
    inputs, sources = _inputs(job, model)
    place = str(onnx_file(job))
    with blaming(job):
        given = open_given(onnx_file(job), import_file(job), place)
        say("the file in ONNX Runtime")
        floats = [given.run(sample_at(inputs.samples, number), place) for number in range(inputs.count)]
        if model.task is not None:
            check_task(model.task, floats[0], str(model.path), sample_at(inputs.samples, 0))
        say("as integers")
        integers = _integers(job, model, inputs)
        say("integers beside floating point")
        close = _closeness(job, given, inputs)
    say(f"{inputs.count} samples on the emulator")
    bundle = read_bundle(bundle_file(job))
    executor = open_bundle(bundle, machines_of(job), EmulatorDevice(), str(bundle_file(job)), optimise=False)
    emulated = _emulated(model, executor) if model.states else executor.run_samples(inputs.samples)
    found = _inference(model, inputs, (floats, integers, emulated), executor, close, given.refusal, calibration_kind(read_stage(graph_file(job))))
    write_atomic(infer_file(job), inference_text(found).encode())
    return Made([infer_file(job)], sources)


def _integers(job: Job, model: Model, inputs: Inputs) -> Results:
    """The outputs of each sample; of each step, without states, where the model has some: each sequence goes on with the integers' own."""
    session, place = open_session(graph_file(job), optimise=False), str(onnx_file(job))

    def run(sample: Mapping[str, Array]) -> dict[str, Array]:
        return run_session(session, sample, place=place)

    sequences, states = sequences_of(model), {*model.pairs.values()}
    if sequences is None:
        return [run(sample_at(inputs.samples, number)) for number in range(inputs.count)]
    steps = (outputs for number in range(sequences.count) for _, outputs in each_step(run, sequences, number))
    return [{name: array for name, array in outputs.items() if name not in states} for outputs in steps]


def _emulated(model: Model, executor: Executor) -> Results:
    """The outputs of each step, without states, which the runtime keeps."""
    sequences = model_sequences(model)
    each = ((open_steps(executor), sequences.sequence(number)) for number in range(sequences.count))
    return [dict(session.step(step).outputs) for session, steps in each for step in steps]


def _inputs(job: Job, model: Model) -> tuple[Inputs, Mapping[Path, SeenFile]]:
    """And the files that they come from."""
    recorded = model.test.samples if model.test else model.calibration
    files = seen(*sample_files(recorded))
    tested = labelled_samples(model)
    if tested is not None:
        return Inputs(tested[0], tested[1], "test"), files
    return Inputs(samples_of(job, model), None, "calibration" if files else "made-up"), files


def _closeness(job: Job, given: Given, inputs: Inputs) -> Closeness:
    """Measured on a few samples: every tensor is read."""
    folder = graph_file(job).parent
    floating, integer = read_stage(stage_before(folder, "fuse", "partition")), integer_stage(folder)
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
    apart = _furthest(integers, emulated) if any(machine.allowance for machine in executor.machines.values()) else None
    return Inference(
        inputs.count, inputs.kind, right, measured, exact, run.samples, run.cycles, run.execute_ms, run.total_ms, clock, close, refusal, calibration,
        apart,
    )  # fmt: skip


def _furthest(expected: Results, found: Results) -> float:
    """The largest difference of two numbers in any tensor; outputs of other kinds, sequences and maps too, have none."""
    pairs = ((one[name], other[name]) for one, other in zip(expected, found, strict=True) for name in one)
    return max((distance(*pair) for pair in pairs if _numeric(*pair)), default=0.0)


def _numeric(*outputs: object) -> bool:
    """Whether all are tensors of numbers."""
    return all(isinstance(each, np.ndarray) and np.issubdtype(each.dtype, np.number) for each in outputs)  # pyright: ignore


def _listed(labels: Labels | None) -> Sequence[int] | None:
    return None if labels is None else labels.tolist()


def verify_built(step: Step, say: Say) -> Made:
    """Leaves the verdict even where something differs. Raises UserError E1204 then, and all of verify_model."""
    job = step.job
    model = model_of(job)
    recorded = seen(*sample_files(model.calibration))
    recorded |= seen(*(tool_path(machine, machine.tool.device) for machine in machines_of(job) if machine.tool))
    built = read_built(machines_of(job), graph_file(job).parent, bundle_file(job), onnx_file(job), subgraphs_file(job))
    verdict = verify_model(built, samples_of(job, model), SampleSize(), say, sequences_of(model))
    kind = calibration_kind(built.integer)
    found = verdict_text(verdict, calibration_text(kind), warn=kind != MADE_UP)
    written = write_report(verdict_file(job), found, verdict_data(verdict))
    if not verdict.right:
        raise fail("E1204", "what the machine computes is not what the integer model computes", place=str(bundle_file(job)), more=found)
    return Made(written, recorded)
