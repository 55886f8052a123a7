"""The regions of a build with their programs, timed: the base of everything that the studio shows of them; and on-chip memory over time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from toolchain.graph.regions import region_calls
from toolchain.isa.program import Ints
from toolchain.report.bundles import ModelledRegion
from toolchain.report.measured_times import Beside, Profile, beside, measured_spans, overlay
from toolchain.report.timeline_data import DIGITS, Overlay, packed, page_data, region_legend, steps
from toolchain.schedule.form.plan import Group, Schedule, ScheduledOperation
from toolchain.spec.model import Memory
from toolchain.timing.event_run import Times
from toolchain.timing.simulate import Timeline
from toolchain.timing.trace import Lives, lives_of
from toolchain.verify.built import Built, ProgramUnderTest, bundled_schedule, program_of_build

MOST = 40_000
"""Rectangles of a memory; where there are more, those of one operation and place at neighbouring addresses are drawn as one."""


@dataclass(frozen=True)
class Rectangles:
    """begin, stop: cycles, float64 [n]. low, high: bytes, all instances of the memory end to end, int64 [n]. operation: index in the region, -1 for
    none; name: index in `names`; both int64 [n]. capacity: bytes."""

    memory: str
    capacity: int
    begin: Times
    stop: Times
    low: Ints
    high: Ints
    operation: Ints
    name: Ints
    names: tuple[str, ...]


def memory_maps(tested: ProgramUnderTest) -> Iterator[Rectangles]:
    """One for each on-chip memory that the program touches."""
    named = _named(tested)
    for memory, lives in lives_of(tested.timeline):
        yield _merged(memory, lives, tested, named)


class _Named(NamedTuple):
    """names: `operation: step place (tensor)` of each pair of operation and step that an instruction has, empty for none, and one more for data that
    no instruction wrote. operation: of each name, -1 for none. of: the name of each instruction."""

    names: tuple[str, ...]
    operation: Ints
    of: Ints


def _named(tested: ProgramUnderTest) -> _Named:
    origins, count = tested.origins, max(len(tested.origins.steps), 1)
    pair = np.where((origins.operation >= 0) & (origins.step >= 0), origins.operation * count + origins.step, -1)
    found, of = np.unique(pair, return_inverse=True)
    operation = np.append(np.where(found < 0, -1, found // count), -1)
    names = [_name(tested, *divmod(number, count)) if number >= 0 else "" for number in found.tolist()]
    return _Named((*names, "there before the program"), operation, of.astype(np.int64))


def _name(tested: ProgramUnderTest, operation: int, step: int) -> str:
    bound, name = tested.region.operations[operation], tested.origins.steps[step]
    tensor = bound.tensors.get(name.place, "")
    return f"{bound.operation.name}: {name.kind} {name.place}" + (f" ({tensor})" if tensor else "")


def _merged(memory: Memory, lives: Lives, tested: ProgramUnderTest, named: _Named) -> Rectangles:
    """Neighbouring addresses that one step of one operation writes are one rectangle."""
    known = lives.writer >= 0
    name = np.where(known, named.of[lives.writer], len(named.names) - 1)
    instance = np.where(known, tested.origins.instance[lives.writer], -1) + 1
    found = _joined(lives, name, name * (int(instance.max(initial=0)) + 1) + instance)
    if len(found[0]) > MOST:
        found = _joined(lives, name, name)
    begin, stop, low, high, name = found
    return Rectangles(memory.name, lives.capacity, begin, stop, low, high, named.operation[name], name, named.names)


def _joined(lives: Lives, name: Ints, key: Ints) -> tuple[Times, Times, Ints, Ints, Ints]:
    """Rectangles of one key that stand side by side, as one from the first write to the last read."""
    if not len(key):
        return lives.begin, lives.stop, lives.low, lives.high, name
    order = np.lexsort((lives.begin, lives.low, key))
    own, low, high = key[order], lives.low[order], lives.high[order]
    heads = np.flatnonzero(np.append(True, (own[1:] != own[:-1]) | (low[1:] > high[:-1])))
    begin, stop = np.minimum.reduceat(lives.begin[order], heads), np.maximum.reduceat(lives.stop[order], heads)
    return begin, stop, low[heads], np.maximum.reduceat(high, heads), name[order][heads]


def map_data(found: Rectangles) -> dict[str, Any]:
    """As the page's script reads it; sorted by begin."""
    order = np.argsort(found.begin, kind="stable")
    columns = {"low": found.low, "high": found.high, "operation": found.operation, "name": found.name}
    columns = {name: column[order] for name, column in columns.items()}
    columns |= {"step": steps(found.begin[order]), "length": np.round((found.stop - found.begin)[order], DIGITS)}
    return {
        "name": found.memory, "capacity": found.capacity, "names": found.names,
        "columns": {name: packed(column) for name, column in columns.items()},
    }  # fmt: skip


MOST_LISTED = 40_000
"""Instructions of all regions together whose assembly the page has room for."""


@dataclass(frozen=True)
class StudioRegion:
    """schedule: as the program follows it. search: what was tried, name and cycles of each candidate, None for one that was refused; `taken` is the
    one that the schedule is of, empty where there was no search. lanes, table: as a device ran it, None where it was not measured."""

    tested: ProgramUnderTest
    schedule: Schedule
    search: tuple[tuple[str, float | None], ...] = ()
    taken: str = ""
    lanes: Overlay | None = None
    table: Beside | None = None

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
        tried = tuple((str(each["candidate"]), each["cycles"]) for each in record.get("candidates", ()))
        schedule = bundled_schedule(built.bundle, programs[tested.region.name], built.place)
        yield StudioRegion(tested, schedule, tried, str(record.get("taken", "")))


def measured_regions(regions: Sequence[StudioRegion], profile: Profile) -> list[StudioRegion]:
    """The regions, those that the profile has rows of with them. Raises UserError E1128 for a row of no instruction or operation of theirs."""
    timed = profile.regions([region.name for region in regions])
    return [_measured(region, profile, len(regions) == 1) if region.name in timed else region for region in regions]


def _measured(region: StudioRegion, profile: Profile, only: bool) -> StudioRegion:
    names = tuple(bound.operation.name for bound in region.tested.region.operations)
    modelled = ModelledRegion(region.name, region.timeline, names, region.tested.owner, region_legend(region.tested))
    spans = measured_spans(profile, profile.of_region(region.name, only), modelled)
    return replace(region, lanes=overlay(modelled, spans), table=beside(profile, spans, modelled))


def regions_data(regions: Sequence[StudioRegion]) -> list[dict[str, Any]]:
    """Each region for the page's script: its timeline, its memories over time, the bytes of each instruction."""
    room, found = MOST_LISTED, list[dict[str, Any]]()
    for region in regions:
        size = len(region.timeline.program)
        listed, room = size <= room, room - size
        data = page_data(region.name, region.timeline, region_legend(region.tested), MOST_LISTED if listed else -1, region.lanes)
        data["maps"] = [map_data(each) for each in memory_maps(region.tested)]
        found.append(data | ({"hex": _hex(region)} if listed else {}))
    return found


def _hex(region: StudioRegion) -> list[str]:
    """The bytes of each instruction, as they stand in the program; those that were measured again."""
    program = region.timeline.program
    sizes = [instruction.bytes for instruction in program.machine.instructions]
    rows = zip(program.stream.tolist(), program.offset.tolist(), program.kind.tolist(), strict=True)
    found: list[str] = [program.streams[stream][offset : offset + sizes[kind]].hex() for stream, offset, kind in rows]
    return found + [found[index] for index in (region.lanes.index.tolist() if region.lanes else ())]


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
