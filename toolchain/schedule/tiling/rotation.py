"""Slots of successive operations go round their memories: the first loads of an operation need not wait for tiles that the last one still uses."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tiles import Tiling

Member = tuple[Problem, Tiling]
Stretch = tuple[str, Pool]
"""A memory and a stretch of it."""


@dataclass
class Rotation:
    """ends: where the last operation's slots end in each pool."""

    ends: dict[Stretch, int] = field(default_factory=dict[Stretch, int])

    def turn(self, members: Sequence[Member]) -> list[Tiling]:
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
