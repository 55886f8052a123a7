"""The things that are compared, as plain figures and texts by name: reports of builds, schedules, machines, and bundles without their folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from toolchain.report.region_use import MemoryRoom, OperationUse, RegionUse
from toolchain.runtime.bundle import bundle_machine, read_bundle
from toolchain.runtime.bundle_checks import trusted_keys
from toolchain.runtime.contents import Bundle, Manifest, Target, description_name
from toolchain.runtime.timing import modelled
from toolchain.schedule.form.files import read_schedule, read_schedules
from toolchain.schedule.form.plan import Group, Schedule, ScheduledOperation
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.files import read_limited
from toolchain.spec.model import Machine
from toolchain.spec.render import NOTES, values_by_path
from toolchain.spec.typed_json import from_json

LESS, MORE, NEITHER = -1, 1, 0
"""Which way a figure gets better."""
BUILD, MACHINE, SCHEDULE = "build", "machine", "schedule"
"""Kinds of things that can be compared with each other; reports and bundles are builds."""

EXACT = "exact"
"""The figure that says whether a build was verified to be."""

MAX_BYTES = 1 << 28

UNWORKING = ("assumptions", "target.summary", "target.sources")
"""Paths below which stand notes for people."""


@dataclass(frozen=True)
class Figure:
    """unit: as it is printed behind the value, `%` for shares in per cent, `yes` for 1 and 0. better: LESS, MORE or NEITHER. judged: whether
    `--fail-above` looks at it."""

    value: float
    unit: str = ""
    better: int = NEITHER
    judged: bool = False


@dataclass(frozen=True)
class ComparedPart:
    """An operation on the machine, or a region where no operations are known. computes: its kind. cycles, bytes: of one image; bytes are moved from
    and to DRAM. use: per cent of the peak while its unit is busy. noise: signal to noise of its result in dB. All None where they are not known."""

    name: str
    computes: str
    cycles: float
    bytes: float | None = None
    use: float | None = None
    noise: float | None = None


@dataclass(frozen=True)
class Side:
    """name: as the user gave it. title: its content in words. machine, schedule: texts by key. figures: by name. parts: in the program's order.
    model: of a build."""

    name: str
    kind: str
    title: str
    machine: Mapping[str, str] = field(default_factory=dict[str, str])
    schedule: Mapping[str, str] = field(default_factory=dict[str, str])
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    parts: tuple[ComparedPart, ...] = ()
    model: str = ""


@dataclass(frozen=True)
class Report:
    """The keys that comparisons read. images: of a run, which cycles, times and bytes are of. macs_on_machine: of one
    image. noise: dB by operation, in reports alone. exact: None before a verification."""

    model: str
    machine: str
    machines: Mapping[str, Mapping[str, str]]
    images: int
    regions: tuple[RegionUse, ...]
    memories: tuple[MemoryRoom, ...]
    cycles: float
    machine_ms: float
    total_ms: float
    utilisation: float | None
    mac_percent: float
    macs_on_machine: int
    accuracy: Mapping[str, float]
    exact: bool | None
    noise: Mapping[str, float] = field(default_factory=dict[str, float])


def report_side(path: Path, name: str, schedule: Mapping[str, str]) -> Side:
    """schedule: by key, where the build's folder is there. Raises UserError E0001, E0330 (unreadable) and E0007 (no report)."""
    report = read_report(path)
    parts = tuple(_part(region, use, report) for region in report.regions for use in region.operations)
    return Side(
        name, BUILD, f"{report.model} on {report.machine}", machine_keys(report.machines), schedule, dict(_figures(report)), parts, report.model
    )


def read_report(path: Path) -> Report:
    """Raises UserError E0001, E0330 and E0007."""
    try:
        found: object = json.loads(read_limited(path, MAX_BYTES, "the report"))
        held = cast("Mapping[str, object]", found if isinstance(found, dict) else {})
        wanted = {key: held[key] for key in Report.__dataclass_fields__ if key != "noise"}
        report = from_json(Report, wanted | {"noise": held.get("noise", {})})
        if report.images < 1:
            raise ValueError
        return report
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        hint = "give the JSON of a report or a summary that this version of the toolchain wrote; build again where it is older"
        raise fail("E0007", "this is no report of a build", hint=hint, place=str(path)) from None


def machine_keys(machines: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The keys of several machines, with the machine's name before each."""
    if len(machines) == 1:
        return {**next(iter(machines.values()))}
    return {f"{name}: {key}": text for name, keys in machines.items() for key, text in keys.items()}


def _part(region: RegionUse, use: OperationUse, report: Report) -> ComparedPart:
    share = 100 * use.macs / use.busy / region.peak_macs if region.peak_macs and use.busy else None
    each = region.runs / report.images
    return ComparedPart(use.operation, use.kind, each * use.cycles, each * use.bytes, share, report.noise.get(use.operation))


def _figures(report: Report) -> Iterator[tuple[str, Figure]]:
    yield from times(report.images, report.cycles, report.machine_ms, report.total_ms)
    yield "MACs on the machine", Figure(report.mac_percent, "%", MORE)
    if report.utilisation is not None:
        yield "utilisation", Figure(report.utilisation, "%", MORE)
    yield "instructions", Figure(sum(region.instructions for region in report.regions), "", LESS)
    yield from _memories(report.memories, report.images)
    yield from ((f"accuracy, {way}", Figure(100 * share, "%", MORE, judged=True)) for way, share in report.accuracy.items())
    if report.exact is not None:
        yield EXACT, Figure(int(report.exact), "yes", MORE, judged=True)


def times(images: int, cycles: float, machine_ms: float, total_ms: float) -> Iterator[tuple[str, Figure]]:
    """All of one image, of a run that takes so many."""
    yield "images a run", Figure(images)
    yield "cycles", Figure(cycles / images, "", LESS)
    yield "machine", Figure(machine_ms / images, "ms", LESS, judged=True)
    yield "with the host", Figure(total_ms / images, "ms", LESS, judged=True)


def _memories(memories: Sequence[MemoryRoom], images: int) -> Iterator[tuple[str, Figure]]:
    for room in memories:
        if room.on_chip:
            yield f"{room.memory}, most in use", Figure(room.used, "B", LESS)
        else:
            yield f"{room.memory} read", Figure(room.read / images, "B", LESS)
            yield f"{room.memory} written", Figure(room.written / images, "B", LESS)


def schedule_side(path: Path, name: str) -> Side:
    """path: of a region's file or of a folder of such files. Raises UserError E0001, E01xx, E14xx."""
    found = read_schedules(path)
    title = ", ".join(f"{region} for {each.machine}{each.config and f':{each.config}'}" for region, each in found.items())
    return Side(name, SCHEDULE, title, schedule=schedule_keys(found))


def schedule_keys(found: Mapping[str, Schedule]) -> dict[str, str]:
    """`region0.conv1.tile.oh: 4`; operations by their names, so that schedules of one network match."""
    return {f"{region}.{key}": text for region, schedule in found.items() for key, text in _keys(schedule)}


def _keys(schedule: Schedule) -> Iterator[tuple[str, str]]:
    yield "groups", "; ".join(_group(group) for group in schedule.groups)
    yield from ((f"{buffer.tensor}.kept", f"{buffer.memory}{'' if buffer.stored else ', not stored'}") for buffer in schedule.buffers)
    for _, operation in schedule.entries():
        yield from ((f"{operation.name}.{key}", text) for key, text in _operation(operation))


def _group(group: Group) -> str:
    names = ", ".join(operation.name for operation in group.operations)
    streams = f" on {len(group.streams)} streams" if group.streams else ""
    return f"{names} by {'tiles' if group.tiles else 'rows'}{streams}" if len(group.operations) > 1 else f"{names}{streams}"


def _operation(operation: ScheduledOperation) -> Iterator[tuple[str, str]]:
    yield "kernel", operation.kernel
    yield "loops", " ".join(cut.dimension for cut in operation.tile)
    yield from ((f"tile.{cut.dimension}", str(cut.size)) for cut in operation.tile)
    yield from ((f"slots.{place}", str(slots if isinstance(slots, int) else len(slots))) for place, slots in operation.slots.items())


def working_values(machine: Machine) -> dict[str, str]:
    """Every value by its path, notes left out."""
    return {path: text for path, text in values_by_path(machine, NOTES).items() if not path.startswith(UNWORKING)}


def machine_side(machine: Machine, name: str) -> Side:
    """Its values, and the multiply-accumulates that it could do in a second."""
    clock, peak = machine.timing.clock_khz, machine.timing.peak_macs
    figures = {"clock": Figure(clock / 1000, "MHz")} | ({"peak": Figure(peak * clock / 1e6, "GMAC/s")} if peak else {})
    figures |= {"area": Figure(machine.costs.area_mm2, "mm2", LESS)} if machine.costs and machine.costs.area_um2 else {}
    return Side(name, MACHINE, machine.summary, working_values(machine), figures=figures)


def bundle_side(path: Path, name: str) -> Side:
    """Regions stand for their operations, which a bundle does not name. Raises UserError E0001, E11xx, for the user's keys."""
    bundle = read_bundle(path, trusted_keys())
    manifest = bundle.manifest
    described = [bundle.members.get(description_name(number)) for number in range(len(manifest.targets))]
    machines = {target.name: _known(target, str(path), text) for target, text in zip(manifest.targets, described, strict=True)}
    keys = {each.name: working_values(known) if (known := machines[each.name]) else _parameters(each) for each in manifest.targets}
    found = {each: machine for each, machine in machines.items() if machine is not None}
    figures = dict(_bundle_figures(found, manifest)) if len(found) == len(machines) else {}
    parts = tuple(ComparedPart(region.name, "region", region.cycles / region.images) for region in manifest.regions)
    return Side(
        name, BUILD, f"{manifest.model} on {' + '.join(keys)}", machine_keys(keys), _schedules(bundle, str(path)), figures, parts, manifest.model
    )


def _schedules(bundle: Bundle, place: str) -> dict[str, str]:
    texts = {
        region.name: Source(f"{place}/{region.schedule}", bundle.members[region.schedule].decode())
        for region in bundle.manifest.regions
        if region.schedule
    }
    return schedule_keys({name: read_schedule(source) for name, source in texts.items()})


def _known(target: Target, place: str, description: bytes | None) -> Machine | None:
    """None where neither a machine on the search path nor the bundle's own description is the one that it was made for; its parameters are still
    known."""
    try:
        return bundle_machine(target, place, description=description)
    except UserError:
        return None


def _parameters(target: Target) -> dict[str, str]:
    return {"target.fingerprint": target.fingerprint} | {f"params.{name}": str(value) for name, value in target.params.items()}


def _bundle_figures(machines: dict[str, Machine], manifest: Manifest) -> Iterator[tuple[str, Figure]]:
    time = modelled(machines, manifest)
    yield from times(time.samples, time.cycles, time.execute_ms, time.total_ms)
