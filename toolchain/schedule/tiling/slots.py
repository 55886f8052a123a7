"""Addresses of slots: rings that a memory's values fill round and round, rotation from one operation to the next, and room beside the slots
of operations that run at the same time."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from toolchain.schedule.kernels.pools import Pool, Slot, beside
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tiles import Planned, Tiling
from toolchain.spec.errors import fail

Key = tuple[int, ...]

Stretch = tuple[str, Pool]
"""A memory and a stretch of it."""


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


@dataclass
class Rotation:
    """ends: where the last operation's slots end in each pool."""

    ends: dict[Stretch, int] = field(default_factory=dict[Stretch, int])

    def turn(self, members: Sequence[Planned]) -> list[Tiling]:
        """The tilings of operations that work at the same time, with each pool's slots from where the last operation's end, wrapping; from the start
        where they do not fit so. A slot that several members use is one."""
        held = [(problem.memories[name], tiling.room[name], slots) for problem, tiling in members for name, slots in tiling.places.items()]
        slots = dict.fromkeys((memory, slot, room) for memory, room, own in held for slot in own)
        moved: dict[tuple[str, Slot], Slot] = {}
        for memory, pools in members[0][0].pools.items():
            for pool in pools:
                here = sorted((slot.address - pool.start, room) for m, slot, room in slots if m == memory and _inside(slot, pool))
                addresses, end = _around(here, self.ends.get((memory, pool), 0), pool.depth)
                self.ends[memory, pool] = end
                for (old, _), new in zip(here, addresses, strict=True):
                    moved[memory, Slot(pool.bank, pool.start + old)] = Slot(pool.bank, pool.start + new)
        return [
            replace(tiling, places={name: tuple(moved[problem.memories[name], slot] for slot in own) for name, own in tiling.places.items()})
            for problem, tiling in members
        ]


def _inside(slot: Slot, pool: Pool) -> bool:
    return slot.bank == pool.bank and pool.start <= slot.address < pool.start + pool.depth


def _around(slots: Sequence[tuple[int, int]], start: int, depth: int) -> tuple[list[int], int]:
    """New addresses of (address, room) from `start` on, none across the end of the memory, and where they end."""
    found, at, wrapped = list[int](), start, False
    for _, room in slots:
        if at + room > depth:
            at, wrapped = 0, True
        if wrapped and at + room > start:
            return [address for address, _ in slots], max((address + size for address, size in slots), default=0)
        found.append(at)
        at += room
    return found, at


@dataclass
class SlotsBeside:
    """rings: memories that are filled round and round, where slots have no fixed place. taken: by memory, slots and the room of each."""

    rings: Collection[str]
    taken: dict[str, list[tuple[Slot, int]]] = field(default_factory=dict[str, list[tuple[Slot, int]]])

    def left(self, problem: Problem) -> dict[str, tuple[Pool, ...]]:
        """The stretches of an operation's pools that are free for its tiles."""
        return {memory: beside(pools, self.taken[memory]) if memory in self.taken else pools for memory, pools in problem.pools.items()}

    def add(self, problem: Problem, tiling: Tiling) -> None:
        """Takes the slots of an operation."""
        for name, slots in tiling.places.items():
            memory = problem.memories[name]
            if memory not in self.rings or name not in problem.known:
                self.taken.setdefault(memory, []).extend((slot, tiling.room[name]) for slot in slots)
