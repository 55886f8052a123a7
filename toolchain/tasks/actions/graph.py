"""The graph side: every pass, each of whose results is an ONNX file that runs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

from toolchain.accuracy.closeness import output_noise, task_loss
from toolchain.graph.calibration.table import read_table
from toolchain.graph.store import Store
from toolchain.models.model import Model, Recorded
from toolchain.models.samples import calibration_samples
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, kinds_of
from toolchain.passes.build import Turn, build_turns, default_pipeline
from toolchain.passes.context import Context, Judge, Pass, Policy, Wish, give, keep, rule
from toolchain.passes.partition import Partition
from toolchain.passes.pipeline import Pipeline, with_options
from toolchain.passes.pipeline import pipeline_of as read_section
from toolchain.passes.quantize import Quantize
from toolchain.passes.templates import templates_for
from toolchain.schedule.backend import Backend, load_backends
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.tasks.actions.paths import blaming, machines_of, model_of, onnx_file, sizes_of, table_file
from toolchain.tasks.deployment import HOST
from toolchain.tasks.garbage import circles_collected
from toolchain.tasks.receipts import read_receipt, seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made


def make_graph(step: Step, say: Say) -> Made:
    """Raises UserError E1203 for a machine without numerics, E1001 for one without kernels, E0901 to E0923 for the model."""
    with circles_collected():  # a model is circles of nodes and values, and its weights in floating point would stay until the build ends
        return _write_graph(step, say)


def _write_graph(step: Step, say: Say) -> Made:
    job, machines = step.job, machines_of(step.job)
    unsaid = next((machine for machine in machines if machine.quantisation is None and not machine.takes_graphs), None)
    if unsaid is not None:
        raise fail("E1203", f"machine '{unsaid.name}' does not say how numbers are stored", hint="its file needs a section 'quantisation'")
    say("reading the kernels")
    backends, kinds = load_backends(machines), shared_kinds(machines)
    check_order(backends)
    model, table = model_of(job), read_table(table_file(job))
    read = seen(model.calibration.file) if isinstance(model.calibration, Recorded) else {}
    samples = None if table.failure else calibration_samples(model)
    policy = next(policy for policy in get_args(Policy) if policy == (job.variables.place or model.place))
    recorded = isinstance(model.calibration, Recorded)
    common = Context(
        str(onnx_file(job)), (), None, table, samples, wishes=_wishes(job, machines, model), policy=policy, recorded=recorded,
        say=say, kinds=kinds, judge=Judge(model.loss, partial(task_loss, model.task), output_noise) if model.loss < 1 else None,
    )  # fmt: skip
    turns = [_turn(backend, number, job, model, common) for number, backend in enumerate(backends)]
    store = Store(step.folder, lent=_written(job))
    with blaming(job):
        build_turns(onnx_file(job), sizes_of(job), turns, store)
    return Made(store.written, read, store.digests)


def _turn(backend: Backend, number: int, job: Job, model: Model, common: Context) -> Turn:
    """number: of the machine among those of the build."""
    machine, device = backend.machine, backend.device(number)
    context = replace(common, templates=templates_for(machine), numerics=machine.quantisation, device=device)
    return Turn(pipeline_of(machine, job, model).passes, context)


def check_order(backends: Sequence[Backend]) -> None:
    """Raises UserError E1211 for a machine of floating point before one of integers, which would find everything taken."""
    graphs = [backend.graph for backend in backends]
    if True in graphs and False in graphs[graphs.index(True) :]:
        first, other = backends[graphs.index(True)].machine.name, backends[graphs.index(False, graphs.index(True))].machine.name
        text = f"'{first}' computes in floating point, and stands before '{other}', which computes in integers"
        raise fail("E1211", text, hint="name machines of floating point last: they take what the others leave")


def _wishes(job: Job, machines: Sequence[Machine], model: Model) -> tuple[Wish, ...]:
    """The model's own go before the deployment's rules."""
    given = (give(model.targets[machine.name], machine.name) for machine in machines if machine.name in model.targets)
    rules = job.deployment.rules if job.deployment else ()
    return (keep(model.host), *given, *(rule(each.nodes, "" if each.on == HOST else each.on, each.because) for each in rules))


def shared_kinds(machines: Sequence[Machine]) -> Kinds:
    """The operations that any of the machines knows. Raises UserError E1208 where two describe one name differently."""
    found: dict[str, OperationKind] = {}
    for machine in machines:
        for name, kind in kinds_of(machine).items():
            if (first := found.setdefault(name, kind)) is not kind and first != kind:
                text = f"machine '{machine.name}' describes the operation '{name}' otherwise than a machine before it in 'target'"
                raise fail("E1208", text, hint="give one of them another name, or build for the machines one by one")
    return found


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
