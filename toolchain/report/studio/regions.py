"""The regions of a build with their programs, timed: the base of everything that the page shows of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.graph.regions import region_calls
from toolchain.report.studio.memory_map import map_data, memory_maps
from toolchain.report.timeline_data import page_data, region_legend
from toolchain.schedule.form.schedule import Group, Schedule, ScheduledOperation
from toolchain.timing.simulate import Timeline
from toolchain.verify.built import Built, ProgramUnderTest, bundled_schedule, program_of_build

MOST_LISTED = 40_000
"""Instructions of all regions together whose assembly the page has room for."""


@dataclass(frozen=True)
class StudioRegion:
    """schedule: as the program follows it. search: what was tried, name and cycles of each candidate, None for one that was refused; `taken` is the
    one that the schedule is of, empty where there was no search."""

    tested: ProgramUnderTest
    schedule: Schedule
    search: tuple[tuple[str, float | None], ...] = ()
    taken: str = ""

    @property
    def name(self) -> str:
        return self.tested.region.name

    @property
    def timeline(self) -> Timeline:
        return self.tested.timeline


def studio_regions(built: Built, records: Mapping[str, Mapping[str, Any]]) -> Iterator[StudioRegion]:
    """Regions with instructions. records: of the searches, by region. Raises UserError of a bundle that is damaged."""
    programs = {program.name: program for program in built.bundle.manifest.regions}
    for call in (call for call in region_calls(built.partitioned) if built.backend(call).tiled):
        tested = program_of_build(built, call)
        record = records.get(tested.region.name, {})
        tried = tuple((str(each["candidate"]), each["tuned"]) for each in record.get("candidates", ()))
        schedule = bundled_schedule(built.bundle, programs[tested.region.name], built.place)
        yield StudioRegion(tested, schedule, tried, str(record.get("taken", "")))


def regions_data(regions: Sequence[StudioRegion]) -> list[dict[str, Any]]:
    """Each region for the page's script: its timeline, its memories over time, the bytes of each instruction."""
    room, found = MOST_LISTED, list[dict[str, Any]]()
    for region in regions:
        size = len(region.timeline.program)
        listed, room = size <= room, room - size
        data = page_data(region.name, region.timeline, region_legend(region.tested), MOST_LISTED if listed else -1)
        data["maps"] = [map_data(each) for each in memory_maps(region.tested)]
        found.append(data | ({"hex": _hex(region.timeline)} if listed else {}))
    return found


def _hex(timeline: Timeline) -> list[str]:
    """The bytes of each instruction, as they stand in the program."""
    program = timeline.program
    sizes = [instruction.bytes for instruction in program.machine.instructions]
    rows = zip(program.stream.tolist(), program.offset.tolist(), program.kind.tolist(), strict=True)
    return [program.streams[stream][offset : offset + sizes[kind]].hex() for stream, offset, kind in rows]


def group_text(group: Group) -> str:
    """`loop over tiles, 2 operations, on streams 0, 1`."""
    count = len(group.operations)
    loop = "loop over tiles" if group.tiles else "loop over rows" if count > 1 else "one operation"
    parts = [loop] + ([f"{count} operations"] if count > 1 else [])
    parts += [f"{group.ahead} slabs ahead"] if group.ahead else []
    parts += [f"loads {', '.join(load.buffer.tensor for load in group.loads)} once"] if group.loads else []
    parts += [f"on streams {', '.join(str(share.stream) for share in group.streams)}"] if group.streams else []
    return ", ".join(parts)


def tile_text(operation: ScheduledOperation) -> str:
    """`oc 1, oh 4`: the outermost loop first."""
    return ", ".join(f"{cut.dimension} {cut.size}" for cut in operation.tile)


def slots_text(operation: ScheduledOperation) -> str:
    """`x 2, w 1`: how many slots each place has."""
    return ", ".join(f"{place} {slots if isinstance(slots, int) else len(slots)}" for place, slots in operation.slots.items())
