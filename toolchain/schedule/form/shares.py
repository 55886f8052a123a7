"""The streams that share the work of a region, as a schedule has them; and loads of one tile that neighbouring streams take at once."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from toolchain.isa.program import Origins
from toolchain.schedule.copies import Copies
from toolchain.schedule.form.bringing import turn_starts
from toolchain.schedule.form.plan import Plan, Schedule, Share
from toolchain.schedule.kernels.constants import Residency
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.shared_memory import instances_of
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.schedule.writer import OperationPart
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.model import Machine
from toolchain.spec.model.structure import neighbours

Placed = tuple[tuple[int, int], int]
"""A step, as its part and its number there, and its stream."""


def teams(machine: Machine, copies: Copies) -> list[range]:
    """The copies that are neighbours, by their numbers; each alone where one takes several clusters, or a part of each of two."""
    near = neighbours(machine.levels)
    size = near // copies.streams if near % copies.streams == 0 else 1
    return [range(first, min(first + size, copies.times)) for first in range(0, copies.times, size)]


def can_multicast(machine: Machine, kernels: Mapping[str, Kernel]) -> bool:
    """Whether some load may serve several streams."""
    return neighbours(machine.levels) > 1 and any(step.multicast for kernel in kernels.values() for step in kernel.steps)


@dataclass(frozen=True)
class Team:
    """Copies that share loads, as one program. parts: of the first copy, then of the next; each has the steps of an operation. sequence, dealt: steps
    and their streams, in an order in which all could run one by one. scopes: by part, the names of its tensors."""

    parts: Sequence[OperationPart]
    sequence: Sequence[tuple[int, int]]
    dealt: Sequence[int]
    scopes: Sequence[Mapping[str, int]]

    @property
    def residency(self) -> Residency:
        """No step has constants of a control memory."""
        nothing = ((),) * len(self.sequence)
        return Residency(b"", nothing, nothing)

    def of_one(self, origins: Origins, operations: int) -> Origins:
        """Origins that count the operations of each copy from 0."""
        return origins.renumbered([number % operations for number in range(len(self.parts))])


def team_of(
    machine: Machine, first: int, streams: int, parts: Sequence[OperationPart], steps: Sequence[Placed], scopes: Sequence[Sequence[Mapping[str, int]]]
) -> Team:
    """first: the team's first stream; streams: of each copy. parts, steps: of one copy, each step with its stream there. scopes: by copy and part.

    All take turns, a step of each stream at a time. Of those that load the same in one turn, one does it for all: that which has loaded least so."""
    count, near = len(parts), neighbours(machine.levels)
    every = [*map(_with_receivers, parts)] * len(scopes)
    names, kept, loaded = [[*part.names] for part in every], list[Placed](), Counter[int]()
    for turn in _turns(steps):
        own = [((number + k * count, instance), first + k * streams + on) for k in range(len(scopes)) for (number, instance), on in turn]
        for takers in _alike(own, every, count, near):
            step, stream = min(takers, key=lambda taker: loaded[taker[1]])
            kept.append((step, stream))
            if len(takers) > 1:
                number, instance = step
                item = every[number].steps[instance]
                loaded[stream] += math.prod(size for _, size in item.tile.values())
                names[number][instance] = {**names[number][instance], f"{item.step.place}_receivers": sum(1 << on % near for _, on in takers)}
    own_parts = [replace(part, names=named) for part, named in zip(every, names, strict=True)]
    return Team(own_parts, [step for step, _ in kept], [stream for _, stream in kept], [scope for copy in scopes for scope in copy])


def _with_receivers(part: OperationPart) -> OperationPart:
    """Every load that could be shared names its receivers: none, where a stream loads for itself."""
    loads = {n: f"{item.step.place}_receivers" for n, item in enumerate(part.steps) if item.step.multicast}
    return replace(part, names=[{loads[n]: 0, **names} if n in loads else names for n, names in enumerate(part.names)])


def _turns(steps: Sequence[Placed]) -> Iterator[Sequence[Placed]]:
    """Steps one behind the other, each of another stream."""
    starts = turn_starts([stream for _, stream in steps])
    return (steps[start:stop] for start, stop in pairwise([*starts, len(steps)]))


def _alike(turn: Sequence[Placed], parts: Sequence[OperationPart], count: int, near: int) -> Iterable[Sequence[Placed]]:
    """The steps that bring the same to neighbouring streams; any other step by itself."""
    found: dict[Hashable, list[Placed]] = {}
    for step, stream in turn:
        found.setdefault(_content(parts[step[0]], step, count, stream // near) or step, []).append((step, stream))
    return found.values()


def _content(part: OperationPart, step: tuple[int, int], count: int, cluster: int) -> Hashable | None:
    """The tile that a load brings and its slot; None for a step that each stream does by itself. Copies have the same weights."""
    number, item = step[0], part.steps[step[1]]
    if not item.step.multicast:
        return None
    owner = number % count if item.step.place in part.problem.known else number
    return owner, item.step.place, tuple(item.tile.items()), tuple(item.slots.items()), item.rows, cluster


Shares = Mapping[int, tuple[Share, ...]]
"""By number of the group; a group that is left out runs on the first stream."""


def tile_count(problem: Problem, tiling: Tiling) -> int:
    """Tiles of the result; all sums of one are made by one stream."""
    return math.prod(-(-problem.extents[d.name] // tiling.sizes[d.name]) for d in problem.kernel.loops)


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


def check_rooms(machine: Machine, kernels: Mapping[str, Kernel], schedule: Schedule) -> None:
    """Raises UserError E1414 for a room for weights where no kernel lets weights wait, or where no memory in which they wait is as large."""
    rooms = [machine.memory[tensor.waits.memory].elements for kernel in kernels.values() for tensor in kernel.tensors if tensor.waits]
    weights, path, hint = schedule.copies.weights, ("schedule", "copies", "weights"), "leave 'weights' out"
    if weights and not rooms:
        raise schedule.error("E1414", f"machine '{machine.name}' has no kernel whose weights wait in a memory that streams share", path, hint)
    if weights and weights > max(rooms):
        text = f"the room for weights is {weights} elements, and the memory in which they wait has {max(rooms)}"
        raise schedule.error("E1414", text, path)


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
