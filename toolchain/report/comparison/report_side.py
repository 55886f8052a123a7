"""A build as its report or its summary says it: the JSON that a build leaves, from wherever it comes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from toolchain.report.comparison.side import BUILD, LESS, MORE, Figure, Part, Side
from toolchain.report.region_use import MemoryRoom, OperationUse, RegionUse
from toolchain.spec.errors import fail
from toolchain.spec.files import read_limited
from toolchain.spec.typed_json import from_json

MAX_BYTES = 1 << 28


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
    return Side(name, BUILD, f"{report.model} on {report.machine}", machine_keys(report.machines), schedule, dict(_figures(report)), parts)


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
    """Of several machines with the machine's name before each key."""
    if len(machines) == 1:
        return {**next(iter(machines.values()))}
    return {f"{name}: {key}": text for name, keys in machines.items() for key, text in keys.items()}


def _part(region: RegionUse, use: OperationUse, report: Report) -> Part:
    share = 100 * use.macs / use.busy / region.peak_macs if region.peak_macs and use.busy else None
    each = region.runs / report.images
    return Part(use.operation, use.kind, each * use.cycles, each * use.bytes, share, report.noise.get(use.operation))


def _figures(report: Report) -> Iterator[tuple[str, Figure]]:
    yield from times(report.images, report.cycles, report.machine_ms, report.total_ms)
    yield "MACs on the machine", Figure(report.mac_percent, "%", MORE)
    if report.utilisation is not None:
        yield "utilisation", Figure(report.utilisation, "%", MORE)
    yield "instructions", Figure(sum(region.instructions for region in report.regions), "", LESS)
    yield from _memories(report.memories, report.images)
    yield from ((f"accuracy, {way}", Figure(100 * share, "%", MORE, judged=True)) for way, share in report.accuracy.items())
    if report.exact is not None:
        yield "exact", Figure(int(report.exact), "yes", MORE, judged=True)


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
