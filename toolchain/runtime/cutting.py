"""Cut a partitioned model into host segments and region calls, in as few turns as possible."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A node. region: whether it is a call of a region. reads: tensors that some step or the caller makes, no constants."""

    name: str
    region: bool
    reads: frozenset[str]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """Nodes, by their numbers in the graph's order, that run one after the other: host nodes alone, or region calls alone."""

    region: bool
    items: tuple[int, ...]


def turns(items: Sequence[Item], given: Sequence[str]) -> tuple[Turn, ...]:
    """The shorter of beginning with the host and beginning with regions; each turn takes whatever is ready.

    items: sorted so that each reads what comes before it, or is among `given`. Raises ValueError where they are not.
    """
    host, region = (_alternate(items, given, begin) for begin in (False, True))
    return min((host, region), key=len)


def _alternate(items: Sequence[Item], given: Sequence[str], region: bool) -> tuple[Turn, ...]:
    known, left, found = set(given), list(range(len(items))), list[Turn]()
    idle = 0
    while left:
        taken: list[int] = []
        for number in left:
            item = items[number]
            if item.region == region and item.reads <= known:
                taken.append(number)
                known.update(item.writes)
        done = set(taken)
        left = [number for number in left if number not in done]
        idle = 0 if taken else idle + 1
        if idle > 1:
            raise ValueError(f"'{items[left[0]].name}' reads a tensor that nothing before it makes")
        if taken:
            found.append(Turn(region, tuple(taken)))
        region = not region
    return tuple(found)
