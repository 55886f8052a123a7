"""SplitInfo: along which dimension, and into how many instances, a sub-graph is split so that each fits the local memory (GraphTurbo, algorithm 1).

Three points that the paper leaves open. A sub-graph without intermediate tensors has a tuple, too, although the listing adds them inside the loop
over these. Operations count in n_d where they are split, as the text says; the listing counts before it looks. And an instance must fit with the rows
that it shares with others, where the listing divides the whole footprint.
"""

import math
from dataclasses import dataclass

from toolchain.schedule.instances.network import AXES, Box, Instance, Members, Network, Work, elements, footprint, instance_of

FIRST = (1, 2, 4)
"""Factors that are tried first; then all from 8 on: the work of eight, four or two cores, or of all of them together."""
SPARSE = 64
"""Factors above this are tried as multiples of a power of two alone, as instances hardly get smaller from one to the next."""


@dataclass(frozen=True)
class Levels:
    """local: bytes of the memory of a core, less the room of weights (the paper's LB); shared: of that of its cluster (GB), 0 where there is none.
    moves: bytes a cycle that a core takes from elsewhere, or stores there."""

    local: int
    shared: int = 0
    moves: float = 1.0


@dataclass(frozen=True)
class Split:
    """dimension: of the outputs, as a picture's axis. factor: instances. operations: that are split by it."""

    dimension: int
    factor: int
    operations: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """The largest is the best: more operations, fewer instances, an outer dimension."""
        return self.operations, -self.factor, -self.dimension


def factors(extent: int) -> list[int]:
    """Factors that a dimension of this extent may be split by."""
    dense = [*(each for each in FIRST if each <= extent), *range(8, min(extent, SPARSE) + 1)]
    return [*dense, *(each for each in range(SPARSE + 1, extent + 1) if each % (1 << each.bit_length() - 3) == 0)]


def split_info(network: Network, members: Members, levels: Levels) -> list[Split]:
    """A tuple for each dimension along which all outputs can be split so that instances fit; its operations are as many as can be."""
    found = (_split(network, members, levels, dimension) for dimension in AXES)
    return [split for split in found if split is not None]


def best_split(network: Network, members: Members, levels: Levels) -> Split | None:
    """The lexicographically largest (n_d, -f_d, -d); None where no dimension helps."""
    return max(split_info(network, members, levels), key=lambda split: split.rank, default=None)


def instances(network: Network, members: Members, dimension: int, factor: int) -> list[Instance]:
    """The instances of a split, in the order of the dimension; fewer where outputs have fewer units than that."""
    return [_instance(network, members, dimension, factor, number) for number in range(_count(network, members, dimension, factor))]


def recomputed(network: Network, members: Members, split: Split) -> float:
    """Cycles in which instances compute elements that others of the same sub-graph compute, too; negative where together they compute less than one
    instance would, as they leave out what no window reads."""
    found = instances(network, members, split.dimension, split.factor)
    return sum(_share(network, each) for each in found) - _share(network, _instance(network, members, split.dimension, 1, 0))


def worthwhile(network: Network, members: Members, split: Split, levels: Levels) -> bool:
    """Whether to compute them again takes less time than intermediate tensors to another memory and back."""
    outputs = set(network.results(members))
    spared = sum(math.prod(network.works[index].extents) for index in members if index not in outputs)
    return recomputed(network, members, split) <= 2 * spared * network.element / levels.moves


def _share(network: Network, instance: Instance) -> float:
    works = ((network.works[index], box) for index, box in instance.made.items())
    return sum(work.cycles * elements(box) / math.prod(work.extents) for work, box in works)


def _count(network: Network, members: Members, dimension: int, factor: int) -> int:
    """Instances of a split."""
    units = (network.works[index].units(dimension) for index in network.results(members))
    return max(-(-each // -(-each // factor)) for each in units)


def _instance(network: Network, members: Members, dimension: int, factor: int, number: int) -> Instance:
    """One of the instances of a split."""
    cuts = {index: _cut(network.works[index], dimension, factor, number) for index in network.results(members)}
    return instance_of(network, members, {index: box for index, box in cuts.items() if elements(box)})


def _cut(work: Work, dimension: int, factor: int, number: int) -> Box:
    """The part of a result that an instance leaves; empty where there are fewer."""
    size, extent = -(-work.units(dimension) // factor) * work.unit[dimension], work.extents[dimension]
    own = range(min(number * size, extent), min((number + 1) * size, extent))
    n, c, h, w = (own if axis == dimension else range(each) for axis, each in enumerate(work.extents))
    return n, c, h, w


def _split(network: Network, members: Members, levels: Levels, dimension: int) -> Split | None:
    outputs = network.results(members)
    factor = _least_factor(network, members, levels.local, dimension)
    if factor is None:
        return None
    finest = _instance(network, members, dimension, max(network.works[output].units(dimension) for output in outputs), 0)
    inner = [index for index in members if index not in outputs]
    return Split(dimension, factor, len(outputs) + sum(_is_split(network.works[index], finest.made.get(index), dimension, factor) for index in inner))


def _least_factor(network: Network, members: Members, local: int, dimension: int) -> int | None:
    """The first factor with which instances fit: those at both ends and in the middle, which share least and most with others. All are tried, as
    instances may take less than their part of the whole: strides leave out rows between them."""
    most = min(network.works[index].units(dimension) for index in network.results(members))
    for factor in factors(most):
        count = _count(network, members, dimension, factor)
        ends = (_instance(network, members, dimension, factor, number) for number in sorted({count // 2, 0, count - 1}))
        if all(footprint(network, members, each) <= local for each in ends):
            return factor
    return None


def _is_split(work: Work, finest: Box | None, dimension: int, factor: int) -> bool:
    """Whether a split of the outputs splits an intermediate tensor along one dimension, which the factor divides. finest: what the first of as many
    instances as there can be needs of it; none where that is nothing."""
    own, extents = finest or work.whole, work.extents
    cut = [axis for axis in AXES if len(own[axis]) < extents[axis]] or [axis for axis in (dimension,) if work.units(axis) == 1]
    return len(cut) == 1 and work.units(cut[0]) % factor == 0
