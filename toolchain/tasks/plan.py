"""The plan of a command line: its machines, its models, the steps of each, and the state of each step as text. Some models are built in a way of
their own: in several lengths, a job for each and a step that joins their bundles; or with states."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TypeVar

from toolchain.models.files import find_model
from toolchain.spec.errors import Source, Span, UserError, fail, placed
from toolchain.spec.files import MODEL_SCHEMA, read_limited
from toolchain.tasks.machines import Deployment, Member, Target, check_rules, find_deployment, folder_name, load_target
from toolchain.tasks.receipts import code_hashes
from toolchain.tasks.stage import JOIN, STAGES, Job, Step
from toolchain.tasks.variables import Lengths, Variables, check_lengths, read_variables

ROOT = Path("build")
Pairs = tuple[tuple[str, str], ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """steps: of each job by the name of its stage, in the order of the stages. joined: of each model of several lengths, the step that puts them into
    one file; each length is a job."""

    jobs: tuple[Job, ...]
    steps: tuple[Mapping[str, Step], ...]
    joined: tuple[Step, ...] = ()

    @property
    def every(self) -> tuple[Step, ...]:
        """All steps, each once: lengths share their calibration."""
        steps = [*(step for steps in self.steps for step in steps.values()), *self.joined]
        return tuple({step.receipt_path: step for step in steps}.values())


def make_plan(given: Mapping[str, str], root: Path = ROOT) -> Plan:
    """Raises UserError E1201, E1202 (variables) and all of `plan_of`."""
    return plan_of(read_variables(given), root)


def plan_of(variables: Variables, root: Path) -> Plan:
    """Raises UserError E1202 (no machine, no model), E0001 (no such machine or model) and everything that is wrong with the machine."""
    if not variables.targets:
        raise fail("E1202", "which machine? there is no 'target='", hint="for example target=NAME; `tilewright target list` says which there are")
    deployment = _deployment(variables)
    targets = _deployed(deployment, variables, root / ".machines") if deployment else _targets(variables, root / ".machines")
    variables = _aimed(variables, max(target.streams * target.lockstep for target in targets))
    models = tuple(check_states(with_lengths(_job(name, targets, variables, root, deployment))) for name in _models(targets[0], variables))
    jobs = tuple(each for job in models for each in jobs_of(job))
    _no_two_alike(jobs)
    if variables.schedule and len(jobs) > 1:
        raise fail("E1202", f"schedule= is for one model, and there are {len(jobs)}", hint="name one with model=")
    _check_streams(max(targets, key=lambda target: target.streams), variables.streams)
    _check_batch(variables)
    _check_images(max(targets, key=lambda target: target.streams * target.lockstep), variables)
    code = code_hashes(sorted({name for stage in STAGES for name in stage.packages}), sorted({name for stage in STAGES for name in stage.libraries}))
    steps = {job.label: steps_of(job, code) for job in jobs if job.like is None}
    steps |= {job.label: steps_of(job, code, steps[job.like.label]) for job in jobs if job.like}
    joined = (joined_step(job, code, [steps[each.label]["bundle"] for each in jobs_of(job)]) for job in models if job.variables.lengths)
    return Plan(jobs, tuple(steps[job.label] for job in jobs), tuple(joined))


def _deployment(variables: Variables) -> Deployment | None:
    """The deployment that `target` names. Raises UserError E1202 where machines stand beside it."""
    found = next(filter(None, map(find_deployment, variables.targets)), None)
    if found and len(variables.targets) > 1:
        raise fail("E1202", f"'{found.path}' in 'target' is a deployment, which names all machines", hint="write it alone, or add them to it")
    return found


def _targets(variables: Variables, cache: Path) -> tuple[Target, ...]:
    """Raises UserError as `_require_distinct` and `_require_owned`."""
    several = len(variables.targets) > 1
    targets = tuple(_target(given, (), variables, several, cache) for given in variables.targets)
    _require_distinct(targets)
    if several:
        _require_owned(variables, targets)
    return targets


def _deployed(deployment: Deployment, variables: Variables, cache: Path) -> tuple[Target, ...]:
    """Raises UserError as `_require_distinct` and `_require_owned`, E1209 for a rule about another machine."""
    targets = tuple(_member(member, variables, cache) for member in deployment.members)
    _require_distinct(targets)
    _require_owned(variables, targets)
    check_rules(deployment, tuple(target.name for target in targets))
    return targets


def _member(member: Member, variables: Variables, cache: Path) -> Target:
    """Raises UserError of the machine; a diagnostic without a place gets that of the machine's name in the deployment."""
    try:
        return _target(member.given, member.params, variables, True, cache)
    except UserError as error:
        raise placed(error, member.span) from None


def _target(given: str, own: Pairs, variables: Variables, several: bool, cache: Path) -> Target:
    """own: parameters of this machine alone. Those of the command line go before them; several: they, and kernels, are given as MACHINE.NAME."""
    if not several:
        return replace(load_target(given, variables.params, cache), without=variables.without)
    plain = load_target(given, (), cache)
    mark = f"{plain.name}."
    chosen = dict(own) | {name.removeprefix(mark): value for name, value in variables.params if name.startswith(mark)}
    found = load_target(given, tuple(sorted(chosen.items())), cache) if chosen else plain
    return replace(found, without=tuple(name.removeprefix(mark) for name in variables.without if name.startswith(mark)))


def _require_distinct(targets: tuple[Target, ...]) -> None:
    """Raises UserError E1207 where two machines have one name."""
    if alike := _two_alike(targets, lambda target: target.name):
        text = f"'{alike[0].given}' and '{alike[1].given}' in 'target' are both the machine '{alike[0].name}'"
        raise fail("E1207", text, hint="name each machine once, the first choice first")


def _require_owned(variables: Variables, targets: tuple[Target, ...]) -> None:
    """Raises UserError E1202 where a parameter or a kernel is of no machine in particular."""
    given = [("params", name, ":VALUE") for name, _ in variables.params] + [("without", name, "") for name in variables.without]
    for variable, name, value in given:
        if name.partition(".")[0] not in {target.name for target in targets}:
            raise fail(
                "E1202", f"'{name}' in '{variable}' names no machine of 'target'", hint=f"for example {variable}={targets[0].name}.{name}{value}"
            )


def _check_streams(target: Target, streams: int) -> None:
    """target: the machine that runs most. Raises UserError E1202."""
    if streams > target.streams:
        runs = "one stream" if target.streams == 1 else f"{target.streams} streams"
        raise fail("E1202", f"streams={streams}: machine '{target.name}' runs {runs}", hint=f"at most streams={target.streams}")


def _aimed(variables: Variables, most: int) -> Variables:
    """With the batch that the objective asks for. most: samples that a machine runs side by side. Raises UserError E1202 for a batch that contradicts
    it."""
    if variables.objective == "latency":
        if variables.batch > 1:
            raise fail("E1202", f"objective=latency is about one sample, and batch={variables.batch}", hint="leave one of the two out")
        return replace(variables, batch=1)
    return replace(variables, batch=variables.batch or most) if variables.objective else variables


MOST_BATCH = 4096
"""Samples that a batch may have: a search takes time and memory with them, and a longer row of samples is runs of such a batch after each other."""


def _check_batch(variables: Variables) -> None:
    """Raises UserError E1202 for a batch past MOST_BATCH, and beside variables that a batch decides."""
    if variables.batch > MOST_BATCH:
        why = "the search for its cut grows with it, and more samples are runs of a smaller batch one after the other"
        raise fail("E1202", f"batch={variables.batch} is more than {MOST_BATCH}: {why}", hint=f"at most batch={MOST_BATCH}")
    beside = {"streams": variables.streams > 1, "images": variables.images > 0, "schedule": bool(variables.schedule)}
    if variables.batch and any(beside.values()):
        name = next(name for name, given in beside.items() if given)
        by, word = ("objective", variables.objective) if variables.objective else ("batch", str(variables.batch))
        raise fail("E1202", f"{by}={word} decides what '{name}' says", hint=f"leave '{name}=' or '{by}=' out")


def _check_images(target: Target, variables: Variables) -> None:
    """target: the machine that takes most. Raises UserError E1202."""
    most = target.streams // variables.streams * target.lockstep
    if variables.images > most:
        runs = f"on {variables.streams} of its {target.streams} streams each " if target.streams > 1 else ""
        raise fail("E1202", f"images={variables.images}: machine '{target.name}' takes at most {most} {runs}a run", hint=f"at most images={most}")


def _models(target: Target, variables: Variables) -> tuple[str, ...]:
    found = variables.models or target.models
    if not found:
        raise fail("E1202", f"which model? machine '{target.name}' has no models of its own", hint="for example model=digits")
    return found


def _job(given: str, targets: tuple[Target, ...], variables: Variables, root: Path, deployment: Deployment | None) -> Job:
    path = find_model(given)
    return Job(folder_name(path.stem), given, path, targets, variables, root, deployment)


def _no_two_alike(jobs: tuple[Job, ...]) -> None:
    """Raises UserError E1202 where two models would be built in one folder."""
    if alike := _two_alike(jobs, lambda job: str(job.folder)):
        text = f"'{alike[0].given}' and '{alike[1].given}' would both be built in '{alike[1].folder}'"
        raise fail("E1202", text, hint="rename one of them, or build one after the other")


def _two_alike(items: Iterable[T], key: Callable[[T], str]) -> tuple[T, T] | None:
    """The first two with one key."""
    seen: dict[str, T] = {}
    return next(((other, item) for item in items if (other := seen.setdefault(key(item), item)) is not item), None)


def steps_of(job: Job, code: Mapping[str, str], like: Mapping[str, Step] | None = None) -> dict[str, Step]:
    """Every stage of a job, each after those that it reads. like: the steps of the same model in the sizes in which it is quantised, where these are
    others."""
    found: dict[str, Step] = {}
    for stage in STAGES:
        if like and stage.name == "calibration":
            found[stage.name] = like[stage.name]
            continue
        more = (like["graph"],) if like and stage.name == "graph" else ()
        found[stage.name] = Step(stage, job, code, (*(found[name] for name in stage.after), *more))
    return found


HEAD = 12


def info_text(plan: Plan) -> str:
    """One paragraph a stage, in the order in which they run."""
    return "\n\n".join(stage_text(step) for step in plan.every)


def stage_text(step: Step) -> str:
    """State, dependencies and place of one stage."""
    rows = [f"  {name:<{HEAD}}{text}" for name, text in _rows(step) if text]
    return "\n".join([f"{step.title}: {state_text(step)}", *rows])


def state_text(step: Step) -> str:
    """Whether it would run now, and why."""
    waiting = [before.stage.name for before in step.chain[:-1] if before.changes()]
    if waiting:
        return f"to be made after {', '.join(waiting)}"
    changes = step.changes()
    return f"to be made: {', '.join(changes)}" if changes else "up to date"


def _rows(step: Step) -> Iterator[tuple[str, str]]:
    stage, receipt = step.stage, step.receipt()
    yield "what", stage.doc
    yield "after", ", ".join(stage.after)
    yield "model file", str(step.job.path) if stage.reads_model else ""
    yield "other files", ", ".join(receipt.read) if receipt else ""
    yield "machine", "" if stage.of_model else "every section, kernels and templates" + ", notes" * stage.notes
    yield "variables", ", ".join({"dims": "dim"}.get(name, name) for name in stage.options)
    yield "code", ", ".join(stage.packages)
    yield "libraries", ", ".join(f"{name} {step.code[name]}" for name in stage.libraries)
    yield "leaves", f"{step.folder}{_count(step.folder, list(receipt.written)) if receipt else ''}"


def _count(folder: Path, written: list[str]) -> str:
    size = sum((folder / name).stat().st_size for name in written if (folder / name).is_file())
    return f", {len(written)} {'file' if len(written) == 1 else 'files'}, {size:,} bytes"


LENGTHS_KEY = b"lengths:"


def declared_lengths(path: Path) -> Lengths:
    """The lengths that a model's file says. Raises UserError for a file that is wrong, E1202 for sizes that do not increase."""
    from toolchain.spec.errors import Source, UserError
    from toolchain.spec.schema import validate
    from toolchain.spec.yaml_nodes import MAX_BYTES, parse_yaml

    if path.suffix == ".onnx" or LENGTHS_KEY not in (data := read_limited(path, MAX_BYTES, "the model file")):
        return ()
    root = parse_yaml(Source(str(path), data.decode(errors="replace")))
    validate(root, MODEL_SCHEMA)
    try:
        return check_lengths({name: tuple(int(size.value) for size in sizes.children()) for name, sizes in root.members("lengths")})
    except UserError as error:
        raise placed(error, root.value["lengths"].span) from None


def with_lengths(job: Job) -> Job:
    """A job with the lengths of its variables, or else those of its model's file, but for dimensions that got one size.

    Raises UserError E1202 for several machines, and for a dimension with one size and several; else as `declared_lengths`.
    """
    fixed = dict(job.variables.dims)
    given = job.variables.lengths
    if both := next((name for name, _ in given if name in fixed), ""):
        raise fail("E1202", f"'{both}' is in 'dim' and in 'lengths'", hint="leave it out of one")
    lengths = given or tuple((name, sizes) for name, sizes in declared_lengths(job.path) if name not in fixed)
    if lengths and len(job.targets) > 1:
        raise fail(
            "E1202", f"several lengths are for one machine, and 'target' names {len(job.targets)}", hint="name one, or give one size with dim="
        )
    return replace(job, variables=replace(job.variables, lengths=lengths)) if lengths else job


def jobs_of(job: Job) -> tuple[Job, ...]:
    """A job for each combination of sizes, the largest last, in which all are quantised; the job itself where it has no lengths."""
    lengths = job.variables.lengths
    if not lengths:
        return (job,)
    names = tuple(name for name, _ in lengths)
    *others, largest = (_sized(job, dict(zip(names, sizes, strict=True))) for sizes in product(*(sizes for _, sizes in lengths)))
    return (*(replace(other, like=largest) for other in others), largest)


def _sized(job: Job, sizes: Mapping[str, int]) -> Job:
    dims = tuple(sorted({**dict(job.variables.dims), **sizes}.items()))
    return replace(job, variables=replace(job.variables, dims=dims, lengths=()), lengths=tuple(sizes))


def joined_step(job: Job, code: Mapping[str, str], bundles: Sequence[Step]) -> Step:
    """bundles: the step of each length's bundle."""
    return Step(JOIN, job, code, tuple(bundles))


STATES_KEY = b"state:"


def check_states(job: Job) -> Job:
    """The job itself. Raises UserError E0816 for several machines, lengths, or samples at once of a model with states, others of a wrong file."""
    span = states_span(job.path)
    if span is None:
        return job
    variables = job.variables
    beside = {"several machines in 'target'": len(job.targets) > 1, "'lengths'": variables.lengths, "'beyond'": variables.beyond}
    beside |= {"'batch'": variables.batch, "'images'": variables.images}
    if wrong := next((name for name, given in beside.items() if given), ""):
        raise fail(
            "E0816", f"{wrong} {'do' if wrong.startswith('several') else 'does'} not go with the states of '{job.model}'", span, "leave it out"
        )
    return job


def states_span(path: Path) -> Span | None:
    """The place of a model file's states; None where it has none. Raises UserError for a file that is wrong."""
    from toolchain.spec.schema import validate
    from toolchain.spec.yaml_nodes import MAX_BYTES, parse_yaml

    if path.suffix == ".onnx" or STATES_KEY not in (data := read_limited(path, MAX_BYTES, "the model file")):
        return None
    root = parse_yaml(Source(str(path), data.decode(errors="replace")))
    validate(root, MODEL_SCHEMA)
    return root.value["state"].where() if root.get("state") else None
