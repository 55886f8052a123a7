"""All lengths of a model in one file: whether zeros behind a sample leave its results alone, and the cost of each length as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from toolchain.graph.preparation import LengthAxis, sized, text_of
from toolchain.graph.quantisation.table import Samples, sample_at, sample_count
from toolchain.graph.session import open_session, run_session
from toolchain.models.samples import calibration_samples, sample_files
from toolchain.models.states import length_axes
from toolchain.report.tables import scaled
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle
from toolchain.runtime.lengths import Bucket, join_bundles, output_axes, write_lengths
from toolchain.runtime.timing import modelled
from toolchain.spec.arrays import Array
from toolchain.spec.typed_json import Tree, to_json
from toolchain.tasks.actions.paths import bundle_file, lengths_file, lengths_text_file, machines_of, model_of, onnx_file, write_report
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made

SAMPLES = 4
"""Samples that are looked at."""
LIMIT = 1e-4
"""Share of a result's largest value, far above float32's rounding of a sum of thousands (assumed)."""
Sizes = Mapping[str, int]


def padding_refusal(file: Path, axes: Sequence[LengthAxis], outputs: Sequence[LengthAxis], lengths: Sequence[Sizes], samples: Samples) -> str:
    """Why samples cannot be filled up with zeros, in words; empty where results stay the same.

    file: the model as the user gave it. axes, outputs: of its inputs and outputs, whose sizes are lengths. lengths: the smallest first. samples: of
    the greatest length. Samples of the smallest length, and of one less than the greatest, are held against the same filled up to the greatest.
    Raises UserError E0910 where ONNX Runtime does not run the file.
    """
    largest = lengths[-1]
    probes = [dict(lengths[0]), {name: max(size - 1, 1) for name, size in largest.items()}]
    session = open_session(file)
    for sizes in probes:
        for number in range(min(sample_count(samples), SAMPLES)):
            short = sized(sample_at(samples, number), axes, sizes)
            own, filled = (run_session(session, given, place=str(file)) for given in (short, sized(short, axes, largest)))
            for name, array in sized(filled, outputs, sizes).items():
                if told := _difference(name, own[name], array):
                    return f"{told} where a sample of {text_of(sizes)} is filled up with zeros to {text_of(largest)}"
    return ""


def _difference(name: str, own: Array, filled: Array) -> str:
    """In words; empty where there is none."""
    if own.shape != filled.shape:
        return f"the output '{name}' has the shape {list(filled.shape)} in place of {list(own.shape)}"
    if own.dtype.kind != "f":
        return "" if np.array_equal(own, filled) else f"the output '{name}' changes"
    apart, most = float(np.abs(own - filled).max(initial=0)), float(np.abs(own).max(initial=0))
    return "" if apart <= LIMIT * most else f"the output '{name}' changes by {100 * apart / max(most, 1e-30):.2g} % of its largest value"


@dataclass(frozen=True)
class LengthCost:
    """sizes: in words. cycles and milliseconds: of one run by the machine's file; machine_ms: on the machine, total_ms: with the host's part, None
    where its costs are not known. bytes: of a bundle of this length alone."""

    sizes: str
    cycles: float
    machine_ms: float
    total_ms: float | None
    bytes: int


def lengths_report(model: str, machines: str, costs: Sequence[LengthCost], joined: int, refusal: str, place: str) -> str:
    """joined: bytes of the one file, which is at `place`. refusal: why samples between lengths are not run, empty where they are."""
    width = max(len(cost.sizes) for cost in costs)
    lines = [f"{model} on {machines} in {len(costs)} lengths"]
    for cost in costs:
        whole = "" if cost.total_ms is None else f"; {cost.total_ms:.3f} ms with the host's part"
        lines.append(f"  {cost.sizes:{width}}  {cost.cycles:,.0f} cycles, {cost.machine_ms:.3f} ms on the machine{whole}")
    alone = sum(cost.bytes for cost in costs)
    lines.append(f"  bundle      {place}: {scaled(joined, 'B')}; one for each length {scaled(alone, 'B')} together")
    told = f"only these lengths are run: {refusal}" if refusal else "filled up with zeros to the next, which changes no result of the model's file"
    return "\n".join([*lines, f"  {'warning' if refusal else 'between'}: {told}"])


def lengths_data(costs: Sequence[LengthCost], joined: int, refusal: str) -> Tree:
    """The same by name."""
    return {"lengths": [to_json(cost) for cost in costs], "bytes": joined, "refusal": refusal}


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
