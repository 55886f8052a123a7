"""The graph side of a build: the model's ONNX file, the calibration table, and every pass, each of whose results is an ONNX file that runs."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import get_args

from toolchain.accuracy.closeness import output_noise, task_loss
from toolchain.graph.quantisation.table import Table, read_table, write_table
from toolchain.graph.store import Store
from toolchain.models.build import build_model
from toolchain.models.load import load_model
from toolchain.models.model import Model, Seeded, Stored
from toolchain.models.samples import sample_files
from toolchain.models.states import start_files
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, kinds_of
from toolchain.passes.build import Turn, build_turns, calibration_table, declared_table, default_pipeline, united_table
from toolchain.passes.context import Context, Judge, Pass, Policy, Wish, give, keep, rule
from toolchain.passes.partition import Partition
from toolchain.passes.pipeline import Pipeline, with_options
from toolchain.passes.pipeline import pipeline_of as read_section
from toolchain.passes.quantize import Quantize
from toolchain.passes.resize import Resize
from toolchain.passes.templates import templates_for
from toolchain.process import circles_collected
from toolchain.schedule.backend import Backend, load_backends
from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import write_atomic
from toolchain.spec.model import Machine
from toolchain.tasks.actions.paths import blaming, graph_files, machines_of, model_of, onnx_file, preparations_file, sizes_file, sizes_of, table_file
from toolchain.tasks.actions.states import samples_of, write_states
from toolchain.tasks.machines import HOST
from toolchain.tasks.receipts import SeenFile, read_receipt, seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made


def make_onnx(step: Step, say: Say) -> Made:
    """Raises UserError of a model file that is wrong, E0807 for an ONNX file that is none, E0904 and E0905 for its dimensions."""
    say("reading the model")
    model = load_model(str(step.job.path), dict(step.job.variables.dims))
    sources = _sources(model) | seen(*start_files(model))
    say("copying" if isinstance(model.origin, Stored) else "making the weights")
    built, path, sizes = build_model(model, step.folder), onnx_file(step.job), sizes_file(step.job)
    names: list[str] = json.loads(built.with_suffix(".stamp.json").read_text())["files"]
    built.replace(path)
    write_atomic(sizes, json.dumps(dict(sorted(_sizes(model).items()))).encode())
    preparations = {name: asdict(entry.preparation) for name, entry in sorted(model.inputs.items()) if entry.preparation}
    write_atomic(preparations_file(step.job), json.dumps(preparations).encode())
    weights = [step.folder / name for name in names if name != built.name]
    written = [path, *weights, sizes, preparations_file(step.job), *write_states(step.job, model)]
    return Made(written, sources)  # not the stamp, which the receipt replaces: it changes with code that changes nothing


def _sizes(model: Model) -> dict[str, int]:
    """The sizes of dimensions that a stored file leaves open."""
    if not isinstance(model.origin, Stored):
        return {}
    from toolchain.models.sources import open_sizes

    return open_sizes(model.origin.file, model.shapes)


def _sources(model: Model) -> dict[Path, SeenFile]:
    if not isinstance(model.origin, Stored):
        return {}
    from toolchain.models.sources import external_files

    file = seen(model.origin.file)  # before it says which others there are
    return file | seen(*external_files(model.origin.file))


def calibrate_model(step: Step, say: Say) -> Made:
    """Raises UserError E0808 (samples), E0901 to E0921 (the model). Made-up samples that the model cannot be run on leave a table that says why."""
    job = step.job
    model = model_of(job)
    recorded = seen(*sample_files(model.calibration))
    with blaming(job):
        declared, ran = _declared(job, model, say), _ran(job, model, say)
    write_table(united_table(ran, declared) if declared else ran, table_file(job))
    return Made([table_file(job)], recorded)


def _declared(job: Job, model: Model, say: Say) -> Table | None:
    """The ranges of a quantised model; recorded samples say more."""
    if not isinstance(model.calibration, Seeded):
        return None
    say("looking for declared ranges")
    return declared_table(onnx_file(job), sizes_of(job))


def _ran(job: Job, model: Model, say: Say) -> Table:
    say("running the calibration samples")
    try:
        return calibration_table(onnx_file(job), sizes_of(job), samples_of(job, model))
    except UserError as error:
        if not isinstance(model.calibration, Seeded) or error.diagnostics[0].code not in ("E0910", "E0921"):
            raise
        return Table(0, {}, failure=f"the model does not run on made-up samples: {error.diagnostics[0].message}")


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
    read = seen(*sample_files(model.calibration))
    samples = None if table.failure else samples_of(job, model)
    policy = next(policy for policy in get_args(Policy) if policy == (job.variables.place or model.place))
    recorded = not isinstance(model.calibration, Seeded)
    common = Context(
        str(onnx_file(job)), (), None, table, samples, wishes=_wishes(job, machines, model), policy=policy, recorded=recorded,
        say=say, kinds=kinds, judge=Judge(model.loss if model.loss < 1 else math.inf, partial(task_loss, model.task), output_noise),
        states=model.pairs,
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
    if isinstance(step, Quantize) and job.like:
        stages = graph_files(job.like)
        number = next(number for number, path in enumerate(stages) if path.stem.endswith(f"-{step.name}"))
        return Resize(stages[number - 1], stages[number])
    if isinstance(step, Partition):
        return replace(step, fallback=step.fallback and job.variables.fallback)
    return with_options(step, model.quantisation, str(model.path)) if isinstance(step, Quantize) else step
