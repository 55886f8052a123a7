"""One point: built, verified and timed through the stages of any other build, so that whatever was built before is not built again."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.explore.study import Point, Study
from toolchain.process import circles_collected
from toolchain.spec.errors import UserError, fail, one_line
from toolchain.spec.search_policies import EFFORT, SEARCH
from toolchain.tasks.folders import Claims
from toolchain.tasks.plan import plan_of
from toolchain.tasks.stage import Job, Step
from toolchain.tasks.variables import NONE, Variables, kernel_names
from toolchain.tasks.work import fulfil

SYSTEM = ("E0005", "E1206")
"""Codes of errors that another run may not meet."""


@dataclass(frozen=True)
class Outcome:
    """figures: by the names of OBJECTIVES, as far as they are known. refused: why the point cannot be, an error's message; empty where it can.

    limits: by model, the unit or memory whose work alone would take most of the time. reports: the summary of each model, below the builds' folder.
    seconds: of processors, that this process and those that it waited for spent on the point.
    """

    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    refused: str = ""
    limits: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)


def measure(study: Study, point: Point, root: Path) -> Outcome:
    """root: of all builds. A point that the machine, the compiler or the verification refuses is an outcome like any other.

    Raises UserError E0005 and E1206, of the system and of files that change, which say nothing of the point.
    """
    start = _spent()
    try:
        plan = plan_of(variables_of(study, point), root)
        with circles_collected(), Claims() as claims:  # models and programs of one point; a study has hundreds
            for job, steps in zip(plan.jobs, plan.steps, strict=True):
                claims.hold(job)
                _build(job, steps, study.verify)
            found = _outcome(plan.jobs, root)
        refused = next((_unknown(name, study) for name in study.objectives if name not in found.figures), "")
    except UserError as error:
        first = error.diagnostics[0]
        if first.code in SYSTEM:
            raise
        return Outcome(refused=one_line(f"{first.code} {first.message}"), seconds=_spent() - start)
    return Outcome(found.figures, refused, found.limits, found.reports, _spent() - start)


def _unknown(objective: str, study: Study) -> str:
    """Why a point without this figure is refused."""
    if objective == "accuracy":
        return f"'accuracy' is not known: {', '.join(study.models)} has neither right answers nor a task"
    return f"'{objective}' is not known: nothing of a model runs on the machine"


def _spent() -> float:
    return sum(os.times()[:4])


def variables_of(study: Study, point: Point) -> Variables:
    """The variables of the point's build."""
    given = {axis.name: value for axis, value in zip(study.axes, point, strict=True)}
    machine, config, place = given.pop("machine", study.machine), given.pop("config", ""), given.pop("place", "")
    without = given.pop("without", NONE)
    streams, images, batch = (int(given.pop(name, plain)) for name, plain in (("streams", "1"), ("images", "0"), ("batch", "0")))
    search, effort = given.pop("search", SEARCH), int(given.pop("effort", EFFORT))
    target = f"{machine.partition(':')[0]}:{config}" if config else machine
    params = tuple(sorted(given.items()))
    return Variables(
        (target,),
        study.models,
        params,
        place=place,
        streams=streams,
        images=images,
        batch=batch,
        search=search,
        effort=effort,
        without=kernel_names(without),
    )


def _build(job: Job, steps: Mapping[str, Step], verify: str) -> None:
    for name in ("verify", "summary") if verify == "all" else ("summary",):
        fulfil(steps[name], lambda _: None)
    if verify == "sample":
        _check_sample(job)


def _check_sample(job: Job) -> None:
    """Raises UserError E1204 where an output of one sample differs, E05xx and E06xx for a program that must not run."""
    from toolchain.tasks.actions.paths import bundle_file, graph_file, machines_of, model_of, onnx_file, subgraphs_file
    from toolchain.tasks.actions.states import samples_of
    from toolchain.verify.built import read_built
    from toolchain.verify.ladder import verify_outputs

    built = read_built(machines_of(job), graph_file(job).parent, bundle_file(job), onnx_file(job), subgraphs_file(job))
    wrong = [output.output for output in verify_outputs(built, samples_of(job, model_of(job))) if output.differing or output.mixed]
    if wrong:
        raise fail("E1204", f"output '{wrong[0]}' is not the integer network's", place=str(bundle_file(job)))


def _outcome(jobs: tuple[Job, ...], root: Path) -> Outcome:
    """Sums over models; of accuracies the least."""
    from toolchain.tasks.actions.paths import summary_file

    each = [_figures(job) for job in jobs]
    found = {name: sum(one[name] for one in each) for name in ("ms", "total_ms", "cycles", "bytes", "energy") if all(name in one for one in each)}
    if all("accuracy" in one for one in each):
        found["accuracy"] = min(one["accuracy"] for one in each)
    found |= {"area": each[0]["area"]} if "area" in each[0] else {}
    if "energy" in found and found["ms"]:
        found["power"] = found["energy"] / found["ms"]
    reports = tuple(str(summary_file(job).relative_to(root)) for job in jobs)
    return Outcome(found, "", tuple(map(_limit, jobs)), reports)


def _figures(job: Job) -> dict[str, float]:
    """The figures of one image."""
    from toolchain.report.compared_sides import read_report
    from toolchain.tasks.actions.paths import machines_of, summary_file

    report, (machine,) = read_report(summary_file(job).with_suffix(".json")), machines_of(job)
    images = report.images
    moved = sum(room.read + room.written for room in report.memories if not room.on_chip)
    found = {"total_ms": report.total_ms / images}
    if report.regions:  # a machine that does nothing is not the quickest of all
        found |= {"ms": report.machine_ms / images, "cycles": report.cycles / images, "bytes": moved / images}
    if (right := _accuracy(job)) is not None:
        found["accuracy"] = right
    if machine.costs and machine.costs.area_um2:
        found["area"] = machine.costs.area_mm2
    if machine.costs and machine.costs.energy_pj and report.regions:
        counts = {"macs": float(report.macs_on_machine * images), "cycles": report.cycles}
        counts |= {f"{memory.name}.{way}": 0.0 for memory in machine.memories for way in ("read", "written")}
        counts |= {f"{room.memory}.{way}": float(getattr(room, way)) for room in report.memories for way in ("read", "written")}
        found["energy"] = machine.costs.energy_uj(counts, report.machine_ms) / images
    return found


def _accuracy(job: Job) -> float | None:
    """In per cent: right answers of the integers, or how well they do the model's task; None where neither is known."""
    from toolchain.accuracy.closeness import read_stated
    from toolchain.tasks.actions.paths import accuracy_file, read_result

    stated = read_result(accuracy_file(job), read_stated)
    if stated.right is not None:
        return 100 * stated.right[1]
    return 100 * stated.task.share if stated.task is not None else None


def _limit(job: Job) -> str:
    """The unit that bounds most cycles of the model's regions."""
    from toolchain.report.compared_sides import read_report
    from toolchain.tasks.actions.paths import summary_file

    bound: dict[str, float] = {}
    for region in read_report(summary_file(job).with_suffix(".json")).regions:
        bound[region.bound_by] = bound.get(region.bound_by, 0.0) + region.runs * region.bound
    return max(bound, key=lambda name: bound[name], default="")
