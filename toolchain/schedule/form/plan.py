"""A region's program before its instructions are written."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolchain.schedule.copies import ONE, Copies
from toolchain.schedule.form.schedule import Share
from toolchain.schedule.fusion.tile_group import TileGroup
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Residents
from toolchain.schedule.placement.shared_memory import SharedSlot, SharedSlots
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tiling.tiles import Tiling


@dataclass(frozen=True)
class Plan:
    """region: its operations in the order in which they run. order: the index that each of them has in the region as it was given.

    problems, tilings: of each operation, with the tensors that stay on chip. dram: the buffers that are needed in DRAM. groups: of several operations
    each, by number. shares: the streams of each group, by number; one that is left out runs on the first. shared: buffers in memories that streams
    share. barriers: one wait may take the tokens of several streams. multicast: neighbouring streams that load the same do it at once. copies: of all
    of it, side by side.
    """

    region: Region
    order: tuple[int, ...]
    problems: Sequence[Problem]
    tilings: Sequence[Tiling]
    residents: Residents
    dram: Storage
    groups: Mapping[int, RowGroup | TileGroup] = field(default_factory=dict[int, RowGroup | TileGroup])
    shares: Mapping[int, tuple[Share, ...]] = field(default_factory=dict[int, tuple[Share, ...]])
    shared: SharedSlots = field(default_factory=dict[str, SharedSlot])
    barriers: bool = False
    multicast: bool = False
    copies: Copies = ONE

    def part(self, operations: range) -> "Plan":
        """These operations, whole groups of them, with every tensor where it is: operations that are not there make their operands."""
        own = slice(operations.start, operations.stop)
        region = replace(self.region, operations=self.region.operations[own])
        residents = replace(self.residents, groups=self.residents.groups[own])
        return replace(
            self, region=region, order=self.order[own], problems=self.problems[own], tilings=self.tilings[own], residents=residents
        )  # fmt: skip

    def runs(self) -> Iterator[tuple[range, RowGroup | TileGroup | None]]:
        """The operations of every group, in order; None for an operation alone."""
        for number, members in itertools.groupby(range(len(self.problems)), key=self.residents.groups.__getitem__):
            first, *more = members
            yield range(first, first + 1 + len(more)), self.groups.get(number)

    @property
    def peak(self) -> dict[str, int]:
        """By memory, elements of each bank that slots and buffers reach, at most."""
        found: dict[str, int] = {}
        for problem, tiling in zip(self.problems, self.tilings, strict=True):
            for name, slots in tiling.places.items():
                found[problem.memories[name]] = max(found.get(problem.memories[name], 0), *(slot.address + tiling.room[name] for slot in slots))
        for name, candidate in self.residents.candidates.items():
            ring = self.residents.rings.get(name)
            top = ring.depth if ring and not ring.lines else self.residents.slots[name].address + self.residents.size(name)
            found[candidate.memory] = max(found.get(candidate.memory, 0), top)
        for shared in self.shared.values():
            found[shared.memory] = max(found.get(shared.memory, 0), shared.slot.address + shared.size)
        return found
