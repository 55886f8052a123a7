"""Tiles of operations that run at the same time stand beside each other."""

from collections.abc import Collection
from dataclasses import dataclass, field

from toolchain.schedule.kernels.pools import Pool, Slot, beside
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tiles import Tiling


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
