"""The plan of a command line: one machine, its models, and the steps of each."""

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
    if not variables.target:
        raise fail("E1202", "which machine? there is no 'target='", hint="for example target=NAME; `tilewright target list` says which there are")
    target = load_target(variables.target, variables.params, root / ".machines")
    jobs = tuple(_job(name, target, variables, root) for name in _models(target, variables))
    _no_two_alike(jobs)
    if variables.schedule and len(jobs) > 1:
        raise fail("E1202", f"schedule= is for one model, and there are {len(jobs)}", hint="name one with model=")
    if variables.streams > target.streams:
        runs = "one stream" if target.streams == 1 else f"{target.streams} streams"
        raise fail("E1202", f"streams={variables.streams}: machine '{target.name}' runs {runs}", hint=f"at most streams={target.streams}")
    code = code_hashes(sorted({name for stage in STAGES for name in stage.packages}), sorted({name for stage in STAGES for name in stage.libraries}))
    return Plan(jobs, tuple(steps_of(job, code) for job in jobs))


def _models(target: Target, variables: Variables) -> tuple[str, ...]:
    found = variables.models or target.models
    if not found:
        raise fail("E1202", f"which model? machine '{target.name}' has no models of its own", hint="for example model=digits")
    return found


def _job(given: str, target: Target, variables: Variables, root: Path) -> Job:
    path = find_model(given)
    return Job(folder_name(path.stem), given, path, target, variables, root)


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
