"""The graph side: every pass, each of whose results is an ONNX file that runs."""

from dataclasses import replace

from toolchain.graph.calibration import read_table
from toolchain.passes.build import build_graph, default_pipeline
from toolchain.passes.context import Context
from toolchain.passes.partition import Partition
from toolchain.passes.pipeline import Pipeline
from toolchain.passes.pipeline import pipeline_of as read_section
from toolchain.passes.templates import templates_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.offload import device_of
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.tasks.actions.paths import blaming, machine_of, onnx_file, sizes_of, table_file
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made


def make_graph(step: Step, say: Say) -> Made:
    """Raises UserError E1203 for a machine without numerics, E1001 for one without kernels, E0901 to E0920 for the model."""
    job, machine = step.job, machine_of(step.job)
    if machine.quantisation is None:
        raise fail("E1203", f"machine '{machine.name}' does not say how numbers are stored", hint="its file needs a section 'quantisation'")
    say("reading the kernels")
    device = device_of(machine, load_kernels(machine))
    templates = templates_of(machine.fusion) if machine.fusion else ()
    context = Context(str(onnx_file(job)), templates, machine.quantisation, read_table(table_file(job)), device=device)
    say("every pass")
    with blaming(job):
        build_graph(onnx_file(job), sizes_of(job), context, step.folder, pipeline_of(machine, job))
    return Made([path for path in step.folder.iterdir() if path.suffix in (".onnx", ".bin")])


def pipeline_of(machine: Machine, job: Job) -> Pipeline:
    """The machine's, or the one that comes with the toolchain; nothing is left to the host where the user does not want it."""
    passes = (read_section(machine.pipeline) if machine.pipeline else default_pipeline()).passes
    return Pipeline(tuple(replace(p, fallback=p.fallback and job.variables.fallback) if isinstance(p, Partition) else p for p in passes))
