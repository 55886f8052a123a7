"""The groups of a schedule that have several operations: whether they can run over one loop of rows."""

import itertools
from collections.abc import Iterator, Sequence

from toolchain.schedule.form.buffers import entry_of
from toolchain.schedule.form.loads import Loads
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.rows.row_group import RowGroup, group_tensors, made_over, ring_buffers
from toolchain.schedule.rows.row_load import Loadable
from toolchain.schedule.rows.row_loop import RowLoop, row_dimension
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, UserError


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
        yield schedule.fault("E1411", text, path, "a multiple of the rows of every slab as rows of the ring")
        return
    clash = group.clash(rings, made_over(plan.residents, rings))
    if clash is not None:
        (path, _, buffer), other = entry_of(schedule, clash.ring), entry_of(schedule, clash.other)
        own = "" if clash.other == clash.ring else f" of '{other.buffer.tensor}'"
        text = f"row {clash.row} of '{buffer.tensor}' is written over row {clash.other_row}{own}, which is still read"
        yield schedule.fault("E1411", text, path, "smaller slabs of rows, fewer of them ahead, or another address or pitch")
