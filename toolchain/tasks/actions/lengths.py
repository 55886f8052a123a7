"""All lengths of a model in one file, and what each costs."""

from collections.abc import Sequence
from pathlib import Path

import onnx

from toolchain.accuracy.padding import padding_refusal
from toolchain.models.lengths import length_axes
from toolchain.models.samples import calibration_samples, sample_files
from toolchain.report.lengths import LengthCost, lengths_data, lengths_report
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle
from toolchain.runtime.lengths import Bucket, join_bundles, output_axes, write_lengths
from toolchain.runtime.timing import modelled
from toolchain.tasks.actions.paths import bundle_file, lengths_file, lengths_text_file, machines_of, model_of, onnx_file, write_report
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made


def join_lengths(step: Step, say: Say) -> Made:
    """Raises UserError E0808 (samples), E0910 where ONNX Runtime does not run the model's file, E11xx for a bundle that cannot be read or joined."""
    jobs = [before.job for before in step.before]
    say("reading the bundles")
    files = [bundle_file(job) for job in jobs]
    bundles = [read_bundle(file) for file in files]
    sizes = [job.sizes for job in jobs]
    model = model_of(jobs[-1])
    axes = length_axes(model, jobs[-1].lengths)
    say("the file in ONNX Runtime, with samples filled up")
    outputs, unclear = output_axes([Bucket(each, bundle.manifest) for each, bundle in zip(sizes, bundles, strict=True)])
    refusal = unclear or padding_refusal(onnx_file(jobs[-1]), axes, outputs, sizes, calibration_samples(model))
    beyond = (step.job.variables.beyond or model.beyond) == "host"
    whole = onnx.load(onnx_file(jobs[-1])) if beyond else None
    joined = join_bundles(axes, list(zip(sizes, bundles, strict=True)), refusal, whole)
    say("writing the bundle")
    path = lengths_file(step.job)
    write_lengths(path, joined)
    costs = _costs(jobs, bundles, files)
    text = lengths_report(step.job.model, step.job.machines, costs, path.stat().st_size, joined.lengths.refusal, str(path))
    written = write_report(lengths_text_file(step.job), text, lengths_data(costs, path.stat().st_size, joined.lengths.refusal))
    return Made([path, *written], seen(*sample_files(model.calibration)))


def _costs(jobs: Sequence[Job], bundles: Sequence[Bundle], files: Sequence[Path]) -> list[LengthCost]:
    found: list[LengthCost] = []
    for job, bundle, file in zip(jobs, bundles, files, strict=True):
        times = modelled({machine.name: machine for machine in machines_of(job)}, bundle.manifest)
        found.append(LengthCost(job.at, times.cycles, times.execute_ms, times.total_ms, file.stat().st_size))
    return found
