"""Loads that neighbouring streams take at once: where several are to load the same tile, one reads it, and all of them get it."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from toolchain.abi.origins import Origins
from toolchain.schedule.kernels.constants import Residency
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.options import Copies
from toolchain.schedule.writer import OperationPart
from toolchain.spec.model import Machine
from toolchain.spec.model.storage import neighbours

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
    starts = [0, *(n for n in range(1, len(steps)) if steps[n][1] <= steps[n - 1][1]), len(steps)]
    return (steps[start:stop] for start, stop in pairwise(starts))


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
