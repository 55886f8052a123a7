"""A region's program before its instructions are written."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.residency import Residents
from toolchain.schedule.placement.storage import Storage
from toolchain.schedule.regions.region import Region
from toolchain.schedule.tiling.tiles import Tiling


@dataclass(frozen=True)
class Plan:
    """region: its operations in the order in which they run. order: the index that each of them has in the region as it was given.

    problems, tilings: of each operation, with what stays on chip. dram: the buffers that are needed in DRAM.
    """

    region: Region
    order: tuple[int, ...]
    problems: Sequence[Problem]
    tilings: Sequence[Tiling]
    residents: Residents
    dram: Storage

    @property
    def peak(self) -> dict[str, int]:
        """By memory, elements of each bank that slots and buffers reach, at most."""
        found: dict[str, int] = {}
        for problem, tiling in zip(self.problems, self.tilings, strict=True):
            memories = {p.name: p.memory for p in problem.kernel.places}
            for name, slots in tiling.places.items():
                found[memories[name]] = max(found.get(memories[name], 0), *(slot.address + tiling.room[name] for slot in slots))
        for name, candidate in self.residents.candidates.items():
            found[candidate.memory] = max(found.get(candidate.memory, 0), self.residents.slots[name].address + candidate.size)
        return found
