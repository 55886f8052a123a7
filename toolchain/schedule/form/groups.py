"""The groups of a schedule that have several operations: whether they can run over one loop of rows or tiles, and the tensors that they
load into rings of rows."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from toolchain.schedule.form.buffers import entry_of
from toolchain.schedule.form.plan import Plan, Schedule
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.ring_check import made_over, ring_buffers
from toolchain.schedule.rows.row_group import RowGroup, group_tensors
from toolchain.schedule.rows.row_loop import Loadable, RowLoop, find_loadable, row_dimension, row_step
from toolchain.schedule.tiling.tile_group import TileGroup, make_tile_group
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.yaml_nodes import Path

Loads = Mapping[int, Sequence[Loadable]]
"""By number of the group, in its order."""


def read_loads(schedule: Schedule, region: Region, problems: Sequence[Problem], storage: Storage) -> Loads:
    """problems: with nothing on chip. Raises UserError E1412 for a tensor that a group cannot load so."""
    found, faults = dict[int, list[Loadable]](), list[Diagnostic]()
    whole = {buffer.tensor for buffer in schedule.buffers if not buffer.pitch}
    for number, (group, members) in enumerate(zip(schedule.groups, schedule.members, strict=True)):
        for index, load in enumerate(group.loads):
            tensor, path = load.buffer.tensor, ("groups", number, "loads", index)
            loadable = find_loadable(region, problems, storage, members, tensor) if tensor in storage.buffers and tensor not in whole else None
            if loadable is None:
                faults.append(_fault(schedule, (*path, "tensor"), tensor, tensor in whole))
            elif load.rows % loadable.lines.together:
                text = f"{load.rows} rows of '{tensor}' are no whole lines: {loadable.lines.together} of them share a line"
                faults.append(schedule.fault("E1412", text, (*path, "rows"), f"a multiple of {loadable.lines.together}"))
            elif row_step(problems[loadable.loader.operation], loadable.loader, load.rows) is None:
                text = f"no load of the group brings {load.rows} rows of '{tensor}' at a time"
                faults.append(schedule.fault("E1412", text, (*path, "rows"), "fewer rows"))
            else:
                found.setdefault(number, []).append(loadable)
    if faults:
        raise UserError(*faults)
    return found


def _fault(schedule: Schedule, path: Path, tensor: str, whole: bool) -> Diagnostic:
    if whole:
        return schedule.fault("E1412", f"'{tensor}' stays on chip as a whole, so no group loads it", path, "take it out of loads, or out of buffers")
    hint = "it must stand in DRAM as an operand of the group, which makes no part of it, in the form that operations hand over on chip"
    return schedule.fault("E1412", f"no operation of the group can load '{tensor}' into a ring of rows", path, hint)


def read_groups(schedule: Schedule, plan: Plan, storage: Storage, loads: Loads) -> dict[int, RowGroup]:
    """By number, the groups of several operations and those that load rings. storage: all buffers, those on chip included.

    Raises UserError E1410 where operations have no common loop of rows, E1411 where a ring is too short.
    """
    found = {
        number: _group(schedule, plan, storage, number, members, loads.get(number, ()))
        for number, members in enumerate(schedule.members)
        if (len(members) > 1 or number in loads) and not schedule.groups[number].tiles
    }
    faults = [fault for number, group in found.items() for fault in _clashes(schedule, plan, number, group)]
    if faults:
        raise UserError(*faults)
    return found


def _group(schedule: Schedule, plan: Plan, storage: Storage, number: int, members: range, loads: Sequence[Loadable]) -> RowGroup:
    loops, faults = list[RowLoop](), list[Diagnostic]()
    for place, index in enumerate(members):
        loop = _row_loop(plan.problems[index], plan.tilings[index])
        if loop is None:
            text = f"'{plan.problems[index].operation.name}' has no loop over rows around its other loops, so it is no part of a group"
            hint = "write the dimension that counts rows first, or give the operation a group of its own"
            faults.append(schedule.fault("E1410", text, ("groups", number, "operations", place, "tile"), hint))
        else:
            loops.append(loop)
    if faults:
        raise UserError(*faults)
    group = schedule.groups[number]
    brought = [loadable.load(members, said.rows) for loadable, said in zip(loads, group.loads, strict=True)]
    return RowGroup(members, loops, group_tensors(plan.region, storage, members, loads), group.ahead, brought)


def _row_loop(problem: Problem, tiling: Tiling) -> RowLoop | None:
    """The loop over rows, the outermost one; None where another loop stands around it, or no dimension counts rows."""
    rows = row_dimension(problem)
    if rows is None:
        return None
    around = itertools.takewhile(lambda name: name != rows, tiling.order)
    inside = tiling.sizes[rows] >= problem.extents[rows] or all(tiling.sizes[name] >= problem.extents[name] for name in around)
    return RowLoop(problem, rows, tiling.sizes[rows]) if inside else None


def _clashes(schedule: Schedule, plan: Plan, number: int, group: RowGroup) -> Iterator[Diagnostic]:
    rings = ring_buffers(plan.residents, number)
    crossing = group.crossing(rings)
    if crossing is not None:
        (path, _, buffer), rows = entry_of(schedule, crossing[0]), crossing[1]
        text = f"rows {rows.start} to {rows.stop - 1} of '{buffer.tensor}', which one slab makes or reads, stand on both sides of the end of the ring"
        hint = "a multiple of the rows of every slab as rows of the ring, and an overlap of as many lines as two slabs read in common"
        yield schedule.fault("E1411", text, path, hint)
        return
    clash = group.clash(rings, made_over(plan.residents, rings))
    if clash is not None:
        (path, _, buffer), other = entry_of(schedule, clash.ring), entry_of(schedule, clash.other)
        own = "" if clash.other == clash.ring else f" of '{other.buffer.tensor}'"
        text = f"row {clash.row} of '{buffer.tensor}' is written over row {clash.other_row}{own}, which is still read"
        yield schedule.fault("E1411", text, path, "smaller slabs of rows, fewer of them ahead, or another address or pitch")


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
