"""A tensor that a group loads from DRAM row by row into a ring, each row once, however many of its operations read it."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Kept, Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Candidate, Lines, Use, common_lines, find_use
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_loop import row_lines, row_step


@dataclass(frozen=True)
class RowLoad:
    """A maker of slabs among the operations of a group. tensor: the buffer in DRAM. ring: its name on chip. member, place: the operation (by its
    number in the group) whose load brings the rows. height: rows of the tensor. size: how many are loaded at a time, whole
    lines."""

    tensor: str
    ring: str
    member: int
    place: str
    height: int
    size: int
    lines: Lines

    def slot(self, kept: Kept, slab: int) -> Slot:
        """The slot of a slab's first line. kept: the ring, as the operation has it."""
        first = self.made(slab).start
        at = (first % kept.again if kept.again else first) // self.lines.together * kept.names[self.lines.pitch]
        return Slot(kept.slot.bank, kept.slot.address + at if kept.again else (kept.slot.address + at) % kept.size)

    @property
    def count(self) -> int:
        """Slabs."""
        return -(-self.height // self.size)

    def made(self, slab: int) -> range:
        """The rows that a slab brings."""
        return range(slab * self.size, min((slab + 1) * self.size, self.height))

    def read(self, slab: int) -> dict[str, range]:  # noqa: ARG002 as operations have it
        """No operand of its own: it reads DRAM."""
        return {}

    def touched(self, slab: int) -> dict[str, range]:
        """By place, the rows that a slab brings."""
        return {self.place: self.made(slab)}

    def slab_of(self, row: int) -> int:
        """The slab that brings a row."""
        return row // self.size


@dataclass(frozen=True)
class Loadable:
    """tensor: the buffer in DRAM. candidate: the ring, read by operations of one group. loader: one of its readers, whose load can bring rows.
    height: rows of the tensor."""

    tensor: str
    candidate: Candidate
    loader: Use
    height: int
    lines: Lines

    def load(self, members: range, size: int) -> RowLoad:
        """The load, so many rows at a time."""
        return RowLoad(self.tensor, self.candidate.name, self.loader.operation - members[0], self.loader.place.name, self.height, size, self.lines)


def find_loadable(region: Region, problems: Sequence[Problem], storage: Storage, members: range, tensor: str) -> Loadable | None:
    """A buffer as a ring that operations load together; None where no load of theirs can bring its rows, or one of them makes a part of it.

    problems: of all operations, with nothing on chip. An operation that has the tensor in another form reads DRAM by itself.
    """
    bound = [
        (index, place, name) for index in members for place, name in region.operations[index].tensors.items() if storage.places[name][0] == tensor
    ]
    if any(place == "y" for _, place, _ in bound):
        return None
    uses = [(use, name) for index, place, name in bound if (use := find_use(problems[index], index, place, storage, name)) is not None]
    whole = [(use, name) for use, name in uses if region.tensors[name].channels == storage.buffers[tensor].channels]
    found = next(((use, name) for use, name in whole if _can_load(problems[use.operation], use)), None)
    ring = ring_name(tensor, members)
    if found is None or ring in storage.buffers:
        return None
    loader, name = found
    own = row_lines(problems[loader.operation], loader)
    reads = tuple(use for use, _ in uses if use.form == loader.form) if own == loader.lines else (loader,)
    lines = common_lines([use.lines for use in reads]) if own == loader.lines else own
    if lines is None:
        return None
    candidate = Candidate(ring, loader.form[0], loader.form[1], (), reads, members[0], members[-1], True, (), lines)
    return Loadable(tensor, candidate, loader, region.tensors[name].height, lines)


def _can_load(problem: Problem, use: Use) -> bool:
    return use.lines is not None and row_step(problem, use, use.lines.together) is not None and row_lines(problem, use) is not None


def ring_name(tensor: str, members: range) -> str:
    """A name for the ring among all buffers on chip: other groups may load the tensor too."""
    return f"{members[0]} {tensor}"
