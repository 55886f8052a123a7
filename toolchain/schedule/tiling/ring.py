"""A memory filled round and round by values known when compiling: every tile goes where the oldest ones stood, so it can be loaded long before."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.spec.errors import fail

Key = tuple[int, ...]


@dataclass
class Ring:
    """at: where the next tile goes, of this operation or the next one."""

    depth: int
    at: int = 0

    def take(self, size: int, others: Sequence[tuple[int, int]]) -> int:
        """The next address with room for `size` elements beside `others`, or over them where there is none."""
        turns, at = 0, self.at
        while turns < 2:
            if at + size > self.depth:
                turns, at = turns + 1, 0
            stop = max((stop for start, stop in others if start < at + size and at < stop), default=None)
            if stop is None:
                break
            at = stop
        else:
            at = self.at if self.at + size <= self.depth else 0
        self.at = at + size
        return at


@dataclass
class Tiles:
    """The tiles that one group has in a ring, by place and key: address, size, and the moment of the last use; the latest used one last.

    shared: several operations use it in turn, so that none of their tiles gives way while there is other room.
    """

    ring: Ring
    shared: bool = False
    held: dict[tuple[str, Key], tuple[int, int, int]] = field(default_factory=dict[tuple[str, Key], tuple[int, int, int]])
    past: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def use(self, place: str, key: Key, size: int, count: int, now: int) -> tuple[Slot, int | None]:
        """The slot and, where the tile was not there, the moment its room was used last (-1: never). count: tiles that the place has at once.

        Raises UserError E1004 where the tile would stand on another one that the same step needs.
        """
        freed = None
        if (place, key) not in self.held:
            own = [name for name in self.held if name[0] == place]
            for name in own[: max(len(own) - count + 1, 0)]:
                self.past.append(self.held.pop(name))
            others = [(start, start + room) for (name, _), (start, room, _) in self.held.items() if self.shared or name != place]
            address = self.ring.take(size, others)
            freed = self._clear(address, size)
            if freed == now:
                raise fail(
                    "E1004", f"the tiles that one step needs do not stand beside each other in {self.ring.depth} elements that are filled in turn"
                )
            self.held[place, key] = address, size, now
        address, size, _ = self.held.pop((place, key))
        self.held[place, key] = address, size, now
        return Slot(0, address), freed

    def _clear(self, address: int, size: int) -> int:
        """Gives up the contents of this room; the index of the last step that used them."""
        for name in [name for name, (start, room, _) in self.held.items() if start < address + size and address < start + room]:
            self.past.append(self.held.pop(name))
        over = [part for part in self.past if part[0] < address + size and address < part[0] + part[1]]
        return max((used for _, _, used in over), default=-1)


def find_rings(problems: Sequence[Problem]) -> dict[str, Ring]:
    """A ring for each memory that only holds values known when compiling. Where control records name slots there is none: every new address
    would be a new record."""
    if any(problem.kernel.constants for problem in problems):
        return {}
    places = [(place, problem) for problem in problems for place in problem.kernel.places]
    mixed = {place.memory for place, problem in places if place.name not in problem.known}
    pools = {place.memory: problem.pools[place.memory] for place, problem in places if place.memory not in mixed}
    return {memory: Ring(found[0].depth) for memory, found in pools.items() if len(found) == 1 and (found[0].bank, found[0].start) == (0, 0)}
