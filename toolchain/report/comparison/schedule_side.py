"""Schedules as values by key: groups, tiles, slots and buffers of each region."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from toolchain.report.comparison.side import SCHEDULE, Side
from toolchain.schedule.form.files import read_schedules
from toolchain.schedule.form.schedule import Group, Schedule, ScheduledOperation


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
