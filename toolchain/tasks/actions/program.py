"""The machine side of a build: each region's schedule, by search or from the user's own file, its program, and all of it in one bundle."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import onnx_ir as ir

from toolchain.codegen import RegionCode
from toolchain.codegen.generators import GENERATORS
from toolchain.codegen.graphs import tool_path
from toolchain.graph.preparation import Preparation
from toolchain.graph.regions import GraphRegion, region_calls
from toolchain.graph.store import read_stage
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.contents import StartedState
from toolchain.schedule.alike import Asked, search_all
from toolchain.schedule.backend import Backend, backend_of, load_backends
from toolchain.schedule.batch_cut import Part, Parts, divided, divisions, load_parts, parts_of, with_copies_of, write_parts
from toolchain.schedule.copies import Copies
from toolchain.schedule.form.files import SUFFIX, check_regions, read_schedule_file, read_schedules, write_schedule
from toolchain.schedule.form.plan import Schedule, make_schedule
from toolchain.schedule.form.realise import realise
from toolchain.schedule.helping import quickest_searched
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region
from toolchain.schedule.search.contest import write_record
from toolchain.schedule.workers import Workers
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic
from toolchain.spec.model import Machine
from toolchain.tasks.actions.paths import (
    MachineSource,
    bundle_file,
    graph_file,
    graph_receipt,
    machine_keys,
    machine_named,
    machines_of,
    onnx_file,
    preparations_file,
    schedule_file,
    search_file,
    subgraphs_file,
)
from toolchain.tasks.actions.states import read_states
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.variables import Variables
from toolchain.tasks.work import Made


@dataclass(frozen=True)
class Partitioned:
    """model: the last stage of the graph. regions: in the order of their calls, each with its machine."""

    model: ir.Model
    regions: tuple[tuple[Backend, Region | GraphRegion], ...]


def regions_of(job: Job) -> Partitioned:
    """Regions that machines compute of a model. Raises UserError E0001 where the graph is not built, E10xx."""
    return _read(job, load_parts(subgraphs_file(job)))


def _read(job: Job, parts: Parts) -> Partitioned:
    receipt = graph_receipt(job)
    return _regions(graph_file(job), receipt.result if receipt else "", machine_keys(job), tuple(parts.items()))


def forget_regions() -> None:
    """Drops the regions that are kept: weights are large."""
    _regions.cache_clear()


@lru_cache(maxsize=1)
def _regions(path: Path, _result: str, keys: tuple[MachineSource, ...], parts: tuple[tuple[str, tuple[Part, ...]], ...]) -> Partitioned:
    backends, model = load_backends([machine_named(key) for key in keys]), divided(read_stage(path), dict(parts))
    calls = [(backend_of(backends, call), call) for call in region_calls(model)]
    return Partitioned(model, tuple((backend, backend.read(model, call)) for backend, call in calls))


def make_schedules(step: Step, say: Say) -> Made:
    """Leaves a file for each region that has tiles, written when all are made. Raises UserError E10xx, E14xx for a schedule of the user's."""
    with Workers() as workers:
        texts = _schedules(step, say, workers)
    for path, text in texts.items():
        write_atomic(path, text.encode())
    return Made([*texts])


def _schedules(step: Step, say: Say, workers: Workers) -> dict[Path, str]:
    given, texts = _given(step), dict[Path, str]()
    parts: Parts = _divide(step.job, say, workers) if step.job.variables.batch else {}
    ways = {part.region: part.ways for each in parts.values() for part in each}
    tiled = _tiled(step.job, parts)
    check_regions(given, [region.name for _, region in tiled])
    asked: list[Asked] = []
    for number, (backend, region) in enumerate(tiled):
        if region.name in given:
            schedule = make_schedule(backend.machine, realise(backend.machine, backend.kernels, region, given[region.name]))
            texts[schedule_file(step.job, region.name)] = write_schedule(schedule)
        else:
            options = _options(step.job.variables, backend.machine, ways.get(region.name))
            options = replace(options, progress=_progress(number, len(tiled), say), workers=workers)
            asked.append(Asked(backend.machine, backend.kernels, region, options))
    asked, found = quickest_searched(asked, workers) if _is_alone(step.job, asked, parts) else (asked, search_all(asked, workers))
    if division := subgraphs_file(step.job):
        texts[division] = write_parts(with_copies_of(parts, {each.region.name: each.options.copies for each in asked}))
    for each, (schedule, trials) in zip(asked, found, strict=True):
        texts[schedule_file(step.job, each.region.name)] = write_schedule(schedule)
        texts[search_file(step.job, each.region.name)] = write_record(each.region.name, each.options.search, each.options.effort, trials)
    return texts


def _is_alone(job: Job, asked: Sequence[Asked], parts: Parts) -> bool:
    """Whether one machine computes one image with all of its streams, and nothing else does."""
    machines = {id(each.machine) for each in asked}
    return job.variables.batch == 1 and len(machines) == 1 and len(asked) == len(_read(job, parts).regions)


def _divide(job: Job, say: Say, workers: Workers) -> Parts:
    """Cuts the regions for the build's batch."""
    tiled = _tiled(job, {})
    found = divisions(((backend.machine, backend.kernels, region) for backend, region in tiled), job.variables.batch, workers)
    parts: dict[str, tuple[Part, ...]] = {}
    for number, (_, region) in enumerate(tiled):
        say(f"region {number + 1} of {len(tiled)}: its sub-graphs")
        parts[region.name] = parts_of(region, next(found))
    return parts


def _tiled(job: Job, parts: Parts) -> list[tuple[Backend, Region]]:
    """The regions that have schedules."""
    return [(backend, region) for backend, region in _read(job, parts).regions if backend.tiled and isinstance(region, Region)]


def _options(variables: Variables, machine: Machine, way: Copies | None = None) -> Options:
    """A machine among several that runs fewer streams, or takes fewer images, does as much as it can. way: of a sub-graph."""
    if way is not None:
        return Options(search=variables.search, effort=variables.effort).taking(way)
    streams = min(variables.streams, machine.streams)
    copies = max(min(-(-variables.images // machine.lockstep), machine.streams // streams), 1)
    return Options(streams=streams, copies=copies, search=variables.search, effort=variables.effort)


def _given(step: Step) -> dict[str, Schedule]:
    """The user's schedules. Raises UserError E1408 for files in the folder that the stage itself writes."""
    if not step.job.variables.schedule:
        return {}
    path = Path(step.job.variables.schedule)
    if any(path.resolve().is_relative_to(folder.resolve()) for folder in (step.folder, step.job.unguided / step.stage.name)):
        raise fail("E1408", "schedule= names the files that the build itself writes", hint=f"copy them elsewhere (SCHEDULE{SUFFIX})", place=str(path))
    return read_schedules(path)


def _progress(number: int, regions: int, say: Say) -> Callable[[int, int, str], None]:
    return lambda index, count, name: say(f"region {number + 1} of {regions}: operation {index + 1} of {count}, {name}")


def make_bundle(step: Step, say: Say) -> Made:
    """Also leaves each region's text: assembly before synchronisation with each instruction's purpose, or C. Raises UserError E10xx, E06xx."""
    found, tools = regions_of(step.job), seen(*(tool_path(machine, machine.tool.compiler) for machine in machines_of(step.job) if machine.tool))
    made: dict[str, RegionCode] = {}
    tasks = [_Coding(*each, read_schedule_file(schedule_file(step.job, each[1].name)) if each[0].tiled else None) for each in found.regions]
    alone = not all(backend.tiled for backend, _ in found.regions)  # a graph stays in its process, and calls of a library take no time
    with Workers(1) if alone else Workers() as workers, workers.ahead(_code, tasks, range(len(tasks))) as code:
        for number, task in enumerate(tasks):
            say(f"region {number + 1} of {len(tasks)}: its program")
            made[task.region.name] = code(number)
    say("writing the bundle")
    path = bundle_file(step.job)
    (source,) = seen(onnx_file(step.job)).values()
    states = [StartedState(*each) for each in read_states(step.job)]
    write_bundle(path, assemble_bundle(step.job.model, machines_of(step.job), found.model, made, _preparations(step), source.digest, states))
    forget_regions()
    return Made([path, *(text for name, one in made.items() for text in _texts(step.folder / name, one))], tools)


@dataclass(frozen=True)
class _Coding:
    """A region whose code is to be generated."""

    backend: Backend
    region: Region | GraphRegion
    schedule: Schedule | None


def _code(tasks: Sequence[_Coding], number: int) -> RegionCode:
    task = tasks[number]
    return GENERATORS[task.backend.machine.codegen].generate(task.backend, task.region, task.schedule)


def _preparations(step: Step) -> dict[str, Preparation]:
    found = json.loads(preparations_file(step.job).read_text())
    return {name: Preparation(p["layout"], tuple(p["mean"]), tuple(p["std"]), p["scale"]) for name, p in found.items()}


def _texts(path: Path, code: RegionCode) -> list[Path]:
    """Assembly and its listing, or C with the files that it includes."""
    texts = {path.with_suffix(".asm" if code.listing else f".{code.suffix}"): code.source.encode()}
    texts |= {path.with_suffix(".txt"): code.listing.encode()} if code.listing else {}
    texts |= {path.with_name(name): data for name, data in code.files.items()}
    for file, data in texts.items():
        write_atomic(file, data)
    return [*texts]
