"""The streams that share the work of a region, as a schedule has them."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod

from toolchain.schedule.form.plan import Plan
from toolchain.schedule.form.schedule import Schedule, Share
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.multicast import can_multicast
from toolchain.schedule.options import Copies
from toolchain.schedule.placement.shared_memory import instances_of
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.model import Machine

Shares = Mapping[int, tuple[Share, ...]]
"""By number of the group; a group that is left out runs on the first stream."""


def tile_count(problem: Problem, tiling: Tiling) -> int:
    """Tiles of the result; all sums of one are made by one stream."""
    return prod(-(-problem.extents[d.name] // tiling.sizes[d.name]) for d in problem.kernel.loops)


def even_shares(tiles: int, streams: int) -> tuple[Share, ...]:
    """Neighbouring tiles to one stream, to each as many as to any other; some streams have none where there are fewer tiles."""
    bounds = [number * tiles // streams for number in range(streams + 1)]
    return tuple(Share(stream, stop - first) for stream, (first, stop) in enumerate(pairwise(bounds)) if stop > first)


def read_shares(machine: Machine, schedule: Schedule, plan: Plan) -> Shares:
    """Raises UserError E1414 for streams that cannot run the tiles, E1404 for a tensor in memories of several streams."""
    found = {number: group.streams for number, group in enumerate(schedule.groups) if group.streams}
    faults = [fault for number in found for fault in _faults(machine, schedule, plan, number)] or [*_scattered(machine, schedule, plan, found)]
    if faults:
        raise UserError(*faults)
    return found


def read_copies(machine: Machine, schedule: Schedule) -> Copies:
    """Raises UserError E1414 where the machine runs fewer streams, or a group needs more than a copy has."""
    copies, used = schedule.copies, 1 + max((share.stream for group in schedule.groups for share in group.streams), default=0)
    if copies.times > 1 and used > copies.streams:
        raise schedule.error("E1414", f"the groups are on {used} streams, and each copy has {copies.streams}", ("schedule", "copies"))
    if copies.times * copies.streams > machine.streams:
        text = f"{copies.times} copies on {copies.streams} streams each need more than the {machine.streams} of machine '{machine.name}'"
        raise schedule.error("E1414", text, ("schedule", "copies"))
    return copies


def check_multicast(machine: Machine, kernels: Mapping[str, Kernel], schedule: Schedule) -> None:
    """Raises UserError E1414 where streams are to take loads at once, and no load can serve several."""
    if schedule.multicast and not can_multicast(machine, kernels):
        text = f"machine '{machine.name}' has no neighbouring streams, or no kernel with a load for several at once"
        raise schedule.error("E1414", text, ("schedule", "multicast"), "leave 'multicast' out")


def _faults(machine: Machine, schedule: Schedule, plan: Plan, number: int) -> Iterator[Diagnostic]:
    group, members, path = schedule.groups[number], schedule.members[number], ("groups", number, "streams")
    for index, share in enumerate(group.streams):
        if share.stream >= machine.streams:
            hint = f"streams are 0 to {machine.streams - 1}" if machine.streams > 1 else "leave 'streams' out"
            yield schedule.fault("E1414", f"machine '{machine.name}' has no stream {share.stream}", (*path, index, 0), hint)
            return
    if any(problem.kernel.loading and problem.kernel.constants for problem in plan.problems):
        yield schedule.fault("E1414", "kernels with records in a control memory run on one stream", path, "leave 'streams' out")
        return
    if (len(members) > 1 and not group.tiles) or group.loads:
        hint = "leave 'streams' out, or put the operations into groups of their own"
        yield schedule.fault("E1414", "operations that share a loop of rows, or load rings of rows, run on the first stream", path, hint)
        return
    given, tiles = sum(share.tiles for share in group.streams), tile_count(plan.problems[members[-1]], plan.tilings[members[-1]])
    if given != tiles:
        text = f"the streams run {given} tiles of '{group.operations[-1].name}', which has {tiles}"
        yield schedule.fault("E1414", text, path, "how many there are follows from the sizes of 'tile'")


def _scattered(machine: Machine, schedule: Schedule, plan: Plan, shares: Shares) -> Iterator[Diagnostic]:
    """Tensors on chip that streams with memories of their own make or read."""
    for index, buffer in ((n, each) for n, each in enumerate(schedule.buffers) if each.tensor in plan.residents.candidates):
        candidate = plan.residents.candidates[buffer.tensor]
        groups = {schedule.numbers[use.operation] for use in (*candidate.writes, *candidate.reads)}
        streams = {share.stream for number in groups for share in shares.get(number, (Share(0, 1),))}
        if len(instances_of(machine, buffer.memory, streams)) > 1:
            text = f"'{buffer.tensor}' cannot stay on chip: {len(streams)} streams make or read it, and each has a '{buffer.memory}' of its own"
            yield schedule.fault("E1404", text, ("buffers", index), "without an entry it goes through DRAM")
