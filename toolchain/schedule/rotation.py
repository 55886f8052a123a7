"""Slots of successive operations go round their memories: what an operation loads first need not wait for what the last one still uses."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from toolchain.schedule.pools import Slot
from toolchain.schedule.problem import Problem
from toolchain.schedule.tiles import Tiling

Bank = tuple[str, int]
"""Memory and first bank of a pool."""


@dataclass
class Rotation:
    """ends: where the last operation's slots end in each pool. peak: elements of each bank of each memory that slots have ever reached."""

    ends: dict[Bank, int] = field(default_factory=dict[Bank, int])
    peak: dict[str, int] = field(default_factory=dict[str, int])

    def turn(self, problem: Problem, tiling: Tiling) -> Tiling:
        """The tiling with each pool's slots from where the last operation's end, wrapping; from the start where they do not fit so."""
        memories = {p.name: p.memory for p in problem.kernel.places}
        slots = [(memories[name], slot, tiling.room[name]) for name, held in tiling.places.items() for slot in held]
        moved: dict[tuple[str, Slot], Slot] = {}
        for memory, pools in problem.pools.items():
            for pool in pools:
                here = sorted((slot.address, room) for m, slot, room in slots if m == memory and slot.bank == pool.bank)
                addresses, end = _around(here, self.ends.get((memory, pool.bank), 0), pool.depth)
                self.ends[memory, pool.bank] = end
                reached = max((address + room for address, (_, room) in zip(addresses, here, strict=True)), default=0)
                self.peak[memory] = max(self.peak.get(memory, 0), reached)
                moved |= {(memory, Slot(pool.bank, old)): Slot(pool.bank, new) for (old, _), new in zip(here, addresses, strict=True)}
        return replace(tiling, places={name: tuple(moved[memories[name], slot] for slot in held) for name, held in tiling.places.items()})


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
