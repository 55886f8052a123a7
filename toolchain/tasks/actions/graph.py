"""The graph side: every pass, each of whose results is an ONNX file that runs."""

from dataclasses import replace
from pathlib import Path

from toolchain.graph.calibration.table import read_table
from toolchain.graph.files.store import Store
from toolchain.models.model import Model, Recorded
from toolchain.models.samples import calibration_samples
from toolchain.operations.library import kinds_of
from toolchain.passes.base import Pass
from toolchain.passes.build import build_graph, default_pipeline
from toolchain.passes.context import Context
from toolchain.passes.partition import Partition
from toolchain.passes.pipeline import Pipeline, with_options
from toolchain.passes.pipeline import pipeline_of as read_section
from toolchain.passes.quantize import Quantize
from toolchain.passes.templates import templates_for
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.offload import device_of
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.tasks.actions.paths import blaming, machine_of, model_of, onnx_file, sizes_of, table_file
from toolchain.tasks.hashes import seen
from toolchain.tasks.receipts import read_receipt
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made


def make_graph(step: Step, say: Say) -> Made:
    """Raises UserError E1203 for a machine without numerics, E1001 for one without kernels, E0901 to E0923 for the model."""
    job, machine = step.job, machine_of(step.job)
    if machine.quantisation is None:
        raise fail("E1203", f"machine '{machine.name}' does not say how numbers are stored", hint="its file needs a section 'quantisation'")
    say("reading the kernels")
    device = device_of(machine, load_kernels(machine))
    kinds = kinds_of(machine)
    model, table = model_of(job), read_table(table_file(job))
    read = seen(model.calibration.file) if isinstance(model.calibration, Recorded) else {}
    samples = None if table.failure else calibration_samples(model)
    everything = (job.variables.place or model.place) == "all"
    recorded = isinstance(model.calibration, Recorded)
    context = Context(
        str(onnx_file(job)), templates_for(machine), machine.quantisation, table, samples, device, model.host, everything, recorded, say, kinds=kinds
    )
    store = Store(step.folder, lent=_written(job))
    with blaming(job):
        build_graph(onnx_file(job), sizes_of(job), context, store, pipeline_of(machine, job, model))
    return Made(store.written, read, store.digests)


def _written(job: Job) -> dict[Path, str]:
    """The files of the stage `onnx`, with their hashes."""
    folder = onnx_file(job).parent
    receipt = read_receipt(folder.with_name("onnx.receipt.json"))
    return {(folder / name).absolute(): entry.digest for name, entry in receipt.written.items()} if receipt else {}


def pipeline_of(machine: Machine, job: Job, model: Model) -> Pipeline:
    """The machine's, or the one that comes with the toolchain, with the model's options of quantisation; no node is left to the host where the user
    does not want it. Raises UserError E0912 for an option that the pass does not have."""
    passes = (read_section(machine.pipeline) if machine.pipeline else default_pipeline()).passes
    return Pipeline(tuple(_adapted(step, job, model) for step in passes))


def _adapted(step: Pass, job: Job, model: Model) -> Pass:
    if isinstance(step, Partition):
        return replace(step, fallback=step.fallback and job.variables.fallback)
    return with_options(step, model.quantisation, str(model.path)) if isinstance(step, Quantize) else step
