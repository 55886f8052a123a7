"""Accuracy of a build: that of the integers on a bounded number of samples. No machine runs anything here, so no engine is imported."""

from collections.abc import Callable, Mapping, Sequence

from toolchain.accuracy.closeness import SATURATED, Stated, closeness_of, stated_text
from toolchain.accuracy.errors import Errors, measure_errors
from toolchain.accuracy.measure import check_task, measure_task, right_share
from toolchain.graph.quantisation.table import Samples, sample_at, sample_count
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import read_stage
from toolchain.graph.work import node_macs
from toolchain.models.model import Model, Seeded
from toolchain.models.samples import labelled_samples, sample_files
from toolchain.passes.budget import held_out
from toolchain.passes.quantize import Quantize
from toolchain.passes.truth import Given, open_given
from toolchain.spec.arrays import Array
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import accuracy_file, blaming, graph_file, import_file, machines_of, model_of, onnx_file
from toolchain.tasks.actions.states import samples_counted, samples_of
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import integer_stage, stage_before, stored_ranges

MOST, TENSORS = 64, 4
"""The most samples that are run, and those on which every tensor is read."""
MACS = 1 << 34
"""Multiply-accumulates of a network on all of them; fewer samples where it has more, at least one."""


def measure_accuracy(step: Step, say: Say) -> Made:
    """Raises UserError E0808 (samples), E0812 (task), E0910."""
    job = step.job
    model = model_of(job)
    read = seen(*sample_files(model.calibration), *(sample_files(model.test.samples) if model.test else ()))
    found = Stated(0)
    if not isinstance(model.calibration, Seeded):
        with blaming(job):
            found = _stated(job, model, say)
    write_atomic(accuracy_file(job), stated_text(found).encode())
    return Made([accuracy_file(job)], read)


def _stated(job: Job, model: Model, say: Say) -> Stated:
    floating, integer = read_stage(stage_before(graph_file(job).parent, "fuse", "partition")), integer_stage(graph_file(job).parent)
    samples, labels, kind = _samples(job, model)
    macs = max(sum(node_macs(node) for node in floating.graph), 1)
    count = max(min(sample_count(samples), MOST, MACS // macs), 1)
    place, inputs = str(onnx_file(job)), [sample_at(samples, number) for number in range(count)]
    given = open_given(onnx_file(job), import_file(job), place)
    say(f"{count} samples in floating point and in integers")
    floats = [given.run(one, place) for one in inputs]
    session = open_session(graph_file(job), optimise=False)
    integers = [run_session(session, one, place=place) for one in inputs]
    if model.task is not None:
        check_task(model.task, floats[0], str(model.path), inputs[0])
    few = {name: array[: max(min(TENSORS, count // 2), 1)] for name, array in samples.items()}
    errors = measure_errors(_runs(given, place), floating, integer, few, stored_ranges(machines_of(job)))
    shares = [right_share(model.task, results, labels[:count] if labels else None) for results in (floats, integers)]
    right = (shares[0], shares[1]) if shares[0] is not None and shares[1] is not None else None
    task = measure_task(model.task, floats, integers, inputs) if model.task else None
    return Stated(count, kind, samples_counted(model), right, task, closeness_of(errors), *_saturated(errors))


def _runs(given: Given, place: str) -> Callable[[Mapping[str, Array]], Mapping[str, Array]]:
    def run(sample: Mapping[str, Array]) -> Mapping[str, Array]:
        return given.run(sample, place)

    return run


def _samples(job: Job, model: Model) -> tuple[Samples, Sequence[int] | None, str]:
    """And the right classes, where they are known, and their kind."""
    tested = labelled_samples(model)
    if tested is not None:
        return tested[0], None if tested[1] is None else tested[1].tolist(), "test"
    samples = samples_of(job, model)
    used = int(model.quantisation.get("samples", Quantize.samples))
    held = held_out(samples, used)
    return held.samples, None, "held-out" if held.learnt < sample_count(samples) else "calibration"


def _saturated(errors: Errors) -> tuple[str, float]:
    """The tensor with most values outside its range, and their share; none where that is little."""
    worst = max(errors.tensors, key=lambda row: (row.cut, row.tensor), default=None)
    return ("", 0.0) if worst is None or worst.cut < SATURATED else (worst.tensor, round(worst.cut, 4))
