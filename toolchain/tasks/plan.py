"""The plan of a command line: its machines, its models, and the steps of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolchain.models.names import find_model
from toolchain.spec.errors import fail
from toolchain.tasks.code import code_hashes
from toolchain.tasks.machines import Target, load_target
from toolchain.tasks.stage import Job, Step, folder_name
from toolchain.tasks.stages import STAGES
from toolchain.tasks.variables import Variables, read_variables

ROOT = Path("build")
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plan:
    """steps: of each job by the name of its stage, in the order of the stages."""

    jobs: tuple[Job, ...]
    steps: tuple[Mapping[str, Step], ...]


def make_plan(given: Mapping[str, str], root: Path = ROOT) -> Plan:
    """Raises UserError E1201, E1202 (variables) and all of `plan_of`."""
    return plan_of(read_variables(given), root)


def plan_of(variables: Variables, root: Path) -> Plan:
    """Raises UserError E1202 (no machine, no model), E0001 (no such machine or model) and everything that is wrong with the machine."""
    if not variables.targets:
        raise fail("E1202", "which machine? there is no 'target='", hint="for example target=NAME; `tilewright target list` says which there are")
    targets = _targets(variables, root / ".machines")
    jobs = tuple(_job(name, targets, variables, root) for name in _models(targets[0], variables))
    _no_two_alike(jobs)
    if variables.schedule and len(jobs) > 1:
        raise fail("E1202", f"schedule= is for one model, and there are {len(jobs)}", hint="name one with model=")
    _check_streams(max(targets, key=lambda target: target.streams), variables.streams)
    code = code_hashes(sorted({name for stage in STAGES for name in stage.packages}), sorted({name for stage in STAGES for name in stage.libraries}))
    return Plan(jobs, tuple(steps_of(job, code) for job in jobs))


def _targets(variables: Variables, cache: Path) -> tuple[Target, ...]:
    """Raises UserError E1202 where a parameter is of no machine in particular, E1207 where two machines have one name."""
    several = len(variables.targets) > 1
    targets = tuple(_target(given, variables.params, several, cache) for given in variables.targets)
    seen: dict[str, Target] = {}
    for target in targets:
        other = seen.setdefault(target.name, target)
        if other is not target:
            text = f"'{other.given}' and '{target.given}' in 'target' are both the machine '{target.name}'"
            raise fail("E1207", text, hint="name each machine once, the first choice first")
    for name, _ in variables.params if several else ():
        if name.partition(".")[0] not in seen:
            raise fail("E1202", f"'{name}' in 'params' names no machine of 'target'", hint=f"for example params={targets[0].name}.{name}:VALUE")
    return targets


def _target(given: str, params: Pairs, several: bool, cache: Path) -> Target:
    """several: parameters are given as MACHINE.NAME."""
    if not several:
        return load_target(given, params, cache)
    plain = load_target(given, (), cache)
    own = tuple((name.removeprefix(f"{plain.name}."), value) for name, value in params if name.startswith(f"{plain.name}."))
    return load_target(given, own, cache) if own else plain


def _check_streams(target: Target, streams: int) -> None:
    """target: the machine that runs most. Raises UserError E1202."""
    if streams > target.streams:
        runs = "one stream" if target.streams == 1 else f"{target.streams} streams"
        raise fail("E1202", f"streams={streams}: machine '{target.name}' runs {runs}", hint=f"at most streams={target.streams}")


def _models(target: Target, variables: Variables) -> tuple[str, ...]:
    found = variables.models or target.models
    if not found:
        raise fail("E1202", f"which model? machine '{target.name}' has no models of its own", hint="for example model=digits")
    return found


def _job(given: str, targets: tuple[Target, ...], variables: Variables, root: Path) -> Job:
    path = find_model(given)
    return Job(folder_name(path.stem), given, path, targets, variables, root)


def _no_two_alike(jobs: tuple[Job, ...]) -> None:
    """Raises UserError E1202 where two models would be built in one folder."""
    seen: dict[str, Job] = {}
    for job in jobs:
        other = seen.setdefault(job.model, job)
        if other is not job:
            text = f"'{other.given}' and '{job.given}' would both be built in '{job.folder}'"
            raise fail("E1202", text, hint="rename one of them, or build one after the other")


def steps_of(job: Job, code: Mapping[str, str]) -> dict[str, Step]:
    """Every stage of a job, each after those that it reads."""
    found: dict[str, Step] = {}
    for stage in STAGES:
        found[stage.name] = Step(stage, job, code, tuple(found[name] for name in stage.after))
    return found
