"""A network as GraphTurbo's algorithms see it: operations, the range of each operand that a part of the result needs, and sizes; no names of machines
and no kernels. Axes are those of a picture: images, channels, rows, columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

AXES = range(4)
Extents = tuple[int, int, int, int]
Box = tuple[range, range, range, range]
"""A part of a tensor: a range of each axis."""
Members = tuple[int, ...]
"""Operations by index, in the order of the network."""


class Span(NamedTuple):
    """For each position of an axis of the result, the first position of an operand's axis that it reads, and the one behind the last. rising: whether
    neither ever falls, as for all windows."""

    first: tuple[int, ...]
    stop: tuple[int, ...]
    rising: bool = True

    def part(self, own: range) -> tuple[int, int]:
        if self.rising:
            return self.first[own.start], self.stop[own.stop - 1]
        return min(self.first[own.start : own.stop]), max(self.stop[own.start : own.stop])


def span_of(first: Sequence[int], stop: Sequence[int]) -> Span:
    """first, stop: by position."""
    rising = all(a <= b for each in (first, stop) for a, b in pairwise(each))
    return Span(tuple(first), tuple(stop), rising)


@dataclass(frozen=True)
class Operand:
    """tensor: where it stands. channel: its first one there. spans: by axis of the result and axis of the operand."""

    tensor: str
    spans: tuple[tuple[Span, ...], ...]
    channel: int = 0

    def part(self, own: Box) -> Box:
        """The part of the tensor that a part of the result needs."""
        ends = [[along[axis].part(part) for along, part in zip(self.spans, own, strict=True)] for axis in AXES]
        n, c, h, w = (range(max(first for first, _ in each), min(stop for _, stop in each)) for each in ends)
        return n, range(c.start + self.channel, c.stop + self.channel), h, w


@dataclass(frozen=True)
class Work:
    """An operation. extents: of its result, which stands in `tensor` from `channel` on. cycles: that its units compute. unit: elements of each axis
    that a split keeps together, as a block of channels."""

    name: str
    tensor: str
    extents: Extents
    operands: tuple[Operand, ...]
    cycles: float
    channel: int = 0
    unit: Extents = (1, 1, 1, 1)

    @property
    def whole(self) -> Box:
        return whole(self.extents)

    def units(self, axis: int) -> int:
        """Parts that an axis can be split into."""
        return -(-self.extents[axis] // self.unit[axis])

    def own(self, part: Box) -> Box | None:
        """The part of the result in a part of the tensor; None where they have nothing in common."""
        channels = range(max(part[1].start - self.channel, 0), min(part[1].stop - self.channel, self.extents[1]))
        found = part[0], channels, part[2], part[3]
        return found if elements(found) else None


@dataclass(frozen=True)
class Network:
    """works: in an order in which they can run. outputs: tensors that are results of the whole. element: bytes of an element."""

    works: tuple[Work, ...]
    outputs: frozenset[str]
    element: int = 1

    @cached_property
    def readers(self) -> Mapping[str, Sequence[int]]:
        """By tensor, the operations that read some of it."""
        found: dict[str, list[int]] = {}
        for index, work in enumerate(self.works):
            for tensor in dict.fromkeys(operand.tensor for operand in work.operands):
                found.setdefault(tensor, []).append(index)
        return found

    def edges(self) -> Iterator[tuple[int, int]]:
        """From each operation to those that read of its tensor."""
        for index, work in enumerate(self.works):
            yield from ((index, reader) for reader in self.readers.get(work.tensor, ()) if reader > index)

    def results(self, members: Members) -> list[int]:
        """The members whose results others need: the outputs of a sub-graph."""
        inside = set(members)
        return [index for index in members if self._leaves(self.works[index].tensor, inside)]

    def _leaves(self, tensor: str, inside: set[int]) -> bool:
        readers = self.readers.get(tensor, ())
        return tensor in self.outputs or not readers or not inside.issuperset(readers)


@dataclass(frozen=True)
class Instance:
    """The parts that an instance of a sub-graph makes and takes. made: by member, of its result. taken: by tensor that no member makes."""

    made: Mapping[int, Box]
    taken: Mapping[str, Box]


def instance_of(network: Network, members: Members, wanted: Mapping[int, Box]) -> Instance:
    """wanted: by member, the part of its result that the instance has to leave."""
    made, taken, inside = dict(wanted), dict[str, Box](), {network.works[index].tensor for index in members}
    needed: dict[str, Box] = {}
    for index in reversed(members):
        work = network.works[index]
        read = work.own(needed[work.tensor]) if work.tensor in needed else None
        if read is not None:
            made[index] = hull(made[index], read) if index in made else read
        if index in made:
            for operand in work.operands:
                part, parts = operand.part(made[index]), needed if operand.tensor in inside else taken
                parts[operand.tensor] = hull(parts[operand.tensor], part) if operand.tensor in parts else part
    return Instance(made, taken)


def footprint(network: Network, members: Members, instance: Instance) -> int:
    """The most bytes of tensors that an instance holds at once: an input from its first reader to its last, a result from its maker to its last
    reader, and outputs to the end. Weights are not counted."""
    last: dict[str, int] = {}
    for index in members:
        last |= {operand.tensor: index for operand in network.works[index].operands}
    for index in network.results(members):
        last[network.works[index].tensor] = members[-1]
    held, most = dict[str, int](), 0
    for index in members:
        work = network.works[index]
        held |= {o.tensor: elements(instance.taken[o.tensor]) for o in work.operands if o.tensor in instance.taken}
        if index in instance.made:
            held[work.tensor] = held.get(work.tensor, 0) + elements(instance.made[index])
        most = max(most, sum(held.values()))
        held = {tensor: count for tensor, count in held.items() if last.get(tensor, index) > index}
    return most * network.element


def whole(extents: Extents) -> Box:
    """All of a tensor."""
    n, c, h, w = map(range, extents)
    return n, c, h, w


def elements(box: Box) -> int:
    """How many there are in a part."""
    return len(box[0]) * len(box[1]) * len(box[2]) * len(box[3])


def hull(one: Box, other: Box) -> Box:
    """The least part with both in it."""
    n, c, h, w = (range(min(a.start, b.start), max(a.stop, b.stop)) for a, b in zip(one, other, strict=True))
    return n, c, h, w


def meets(one: Box, other: Box) -> bool:
    """Whether two parts of a tensor have an element in common."""
    return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(one, other, strict=True))
