"""The groups of a schedule that share a loop over tiles: whether each tile can pass from one operation to the next."""

from collections.abc import Iterator, Sequence

from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.fusion.tile_group import TileGroup, make_tile_group
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, UserError


def share_tiles(
    schedule: Schedule, region: Region, problems: Sequence[Problem], tilings: Sequence[Tiling], stored: bool
) -> tuple[list[Problem], list[Tiling], dict[int, TileGroup]]:
    """Problems and tilings with the tiles that pass between the members of groups over tiles, and those groups by number. stored: every tensor is
    stored to DRAM as well.

    Raises UserError E1413 where tiles cannot pass as the schedule says.
    """
    found, faults = dict[int, TileGroup](), list[Diagnostic]()
    for number, members in _over_tiles(schedule):
        if schedule.groups[number].loads:
            faults.append(schedule.fault("E1413", "a group over tiles loads no rings of rows", ("groups", number, "loads"), "take them out"))
        group = make_tile_group(region, members, [problems[index] for index in members], stored)
        if isinstance(group, TileGroup):
            faults += _tile_faults(schedule, number, group, [tilings[index] for index in members])
            found[number] = group
        else:
            faults.append(schedule.fault("E1413", group, ("groups", number, "operations"), "put the operations into groups of their own"))
    faults += _alone(schedule, problems)
    if faults:
        raise UserError(*faults)
    problems, tilings = list(problems), list(tilings)
    for group in found.values():
        members = slice(group.operations.start, group.operations.stop)
        problems[members], tilings[members] = group.problems, group.shared(tilings[members])
    return problems, tilings, found


def _over_tiles(schedule: Schedule) -> Iterator[tuple[int, range]]:
    """The number and the operations of each group over tiles."""
    return ((number, members) for number, members in enumerate(schedule.members) if schedule.groups[number].tiles)


def _tile_faults(schedule: Schedule, number: int, group: TileGroup, tilings: Sequence[Tiling]) -> Iterator[Diagnostic]:
    """Members whose tile is not the one that their reader needs, and tiles that lie otherwise than a reader sees them."""
    last = tilings[-1]
    for member, sizes in enumerate(group.sizes(last.sizes)):
        for name, size in sizes.items():
            if tilings[member].sizes[name] != size:
                text = f"the tile of '{group.problems[member].operation.name}' has {tilings[member].sizes[name]} units of {name}, and {size} are read"
                hint = "the tile of the last operation of the group decides"
                yield schedule.fault("E1413", text, ("groups", number, "operations", member, "tile", name), hint)
                return
    wrong = group.disagreement(group.tiles(last.sizes, last.order))
    if wrong:
        yield schedule.fault("E1413", wrong, ("groups", number, "operations"), "another tile of the last operation")


def _alone(schedule: Schedule, problems: Sequence[Problem]) -> Iterator[Diagnostic]:
    """Kernels that take tiles from other operations, outside groups over tiles."""
    tiled = {index for _, members in _over_tiles(schedule) for index in members}
    for index, (path, operation) in enumerate(schedule.entries()):
        if problems[index].kernel.passed and index not in tiled:
            text = f"kernel '{operation.kernel}' takes '{problems[index].kernel.passed[0]}' from another operation of its group"
            yield schedule.fault("E1413", text, (*path, "kernel"), "write loop: tiles at the group, or take another kernel")
