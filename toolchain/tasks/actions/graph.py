"""The graph side: every pass, each of whose results is an ONNX file that runs."""

from toolchain.graph.calibration import read_table
from toolchain.passes.build import build_graph
from toolchain.passes.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.tasks.actions.paths import blaming, onnx_file, sizes_of, table_file
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made


def make_graph(step: Step, say: Say) -> Made:
    """Raises UserError E1203 for a machine without numerics, E0901 to E0919 for the model."""
    job, machine = step.job, machine_of(step.job)
    if machine.quantisation is None:
        raise fail("E1203", f"machine '{machine.name}' does not say how numbers are stored", hint="its file needs a section 'quantisation'")
    say("integers")
    context = Context(str(onnx_file(job)), numerics=machine.quantisation, table=read_table(table_file(job)))
    with blaming(job):
        build_graph(onnx_file(job), sizes_of(job), context, step.folder)
    return Made([path for path in step.folder.iterdir() if path.suffix in (".onnx", ".bin")])


def machine_of(job: Job) -> Machine:
    """The machine with the build's parameters. It was checked when the build was planned."""
    return load_machine(job.target.given, overrides=dict(job.target.params))
