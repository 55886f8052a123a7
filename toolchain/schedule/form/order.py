"""Whether a schedule is for this region and machine, and has each of its operations once, after whatever it reads."""

from collections.abc import Iterator
from dataclasses import replace

from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.model import Machine


def check_head(machine: Machine, region: Region, schedule: Schedule) -> None:
    """Raises UserError E1401 for a schedule of another region, machine or architecture."""
    wanted = {"region": region.name, "machine": machine.name, "fingerprint": fingerprint(machine)}
    found = {"region": schedule.region, "machine": schedule.machine, "fingerprint": schedule.fingerprint}
    for key, value in wanted.items():
        if found[key] != value:
            hint = "the machine's file or its parameters have changed: build without the schedule and start from that" * (key == "fingerprint")
            raise schedule.error("E1401", f"the schedule's {key} is '{found[key][:80]}', this is '{value}'", ("schedule", key), hint)


def ordered_region(region: Region, schedule: Schedule) -> tuple[Region, tuple[int, ...]]:
    """The region in the schedule's order, and the index that each operation had.

    Raises UserError E1402 for operations that are not the region's, missing or there twice, E1403 for one that reads a tensor made later.
    """
    faults = list(_faults(region, schedule))
    if faults:
        raise UserError(*faults)
    order = tuple(operation.operation for _, operation in schedule.entries())
    ordered = replace(region, operations=tuple(region.operations[index] for index in order))
    early = list(_early(ordered, schedule))
    if early:
        raise UserError(*early)
    return ordered, order


def _faults(region: Region, schedule: Schedule) -> Iterator[Diagnostic]:
    count, seen = len(region.operations), set[int]()
    for path, operation in schedule.entries():
        index = operation.operation
        if index >= count:
            yield schedule.fault("E1402", f"there is no operation {index}: the region has {count}, from 0 on", (*path, "operation"))
        elif index in seen:
            yield schedule.fault("E1402", f"operation {index} is there twice", (*path, "operation"))
        elif operation.name != region.operations[index].operation.name:
            name = region.operations[index].operation.name
            yield schedule.fault("E1402", f"operation {index} is '{name}', not '{operation.name}'", (*path, "name"), "the index says which one it is")
        seen.add(index)
    for index in sorted(set(range(count)) - seen):
        yield schedule.fault("E1402", f"operation {index}, '{region.operations[index].operation.name}', is missing", ("groups",))


def _early(ordered: Region, schedule: Schedule) -> Iterator[Diagnostic]:
    """Operations that read a tensor before it is made."""
    made = set(ordered.inputs)
    for (path, _), bound in zip(schedule.entries(), ordered.operations, strict=True):
        for place, tensor in bound.tensors.items():
            if place != "y" and not _known(ordered, made, ordered.viewed(tensor)):
                yield schedule.fault("E1403", f"'{bound.operation.name}' reads '{tensor}' before it is made", path)
        made.add(bound.tensors["y"])


def _known(region: Region, made: set[str], tensor: str) -> bool:
    """Whether a tensor is made: itself, all parts of it, or a tensor that it is a part of."""
    above = tensor
    while above not in made and above in region.slices:
        above = region.slices[above].parent
    open_parts = [tensor]
    while above not in made and open_parts:
        name = open_parts.pop()
        if name not in made:
            if name not in region.parts:
                return False
            open_parts += region.parts[name]
    return True
