"""The work of units, the memories of tensors and the stages of compiled regions, as GraphTurbo's figures 16 and 17 and its table 3 have them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby

import numpy as np

from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Region
from toolchain.spec.model import Machine
from toolchain.timing.usage import UsageSummary, summarise


@dataclass(frozen=True)
class Ran:
    """A program, and how often it runs."""

    times: int
    compiled: CompiledRegion

    @cached_property
    def use(self) -> UsageSummary:
        """Of one run."""
        return summarise(self.compiled.timeline)

    @property
    def cycles(self) -> float:
        """Of all runs."""
        return self.times * self.compiled.cycles

    @property
    def moved(self) -> int:
        """Bytes through DRAM in all runs."""
        dram = (each for each in self.use.memories if each.name == self.compiled.map.memory)
        return self.times * sum(each.read_bytes + each.written_bytes for each in dram)


@dataclass(frozen=True)
class Stage:
    """Operations one after the other whose results are of one size. use: by unit, the share of `cycles` for which it works, from 0 to 1.

    cycles: from the first instruction of these operations to the end of the last one. Cores that are apart make stages overlap.
    """

    region: str
    size: str
    operations: int
    cycles: float
    use: Mapping[str, float]


def unit_use(runs: Sequence[Ran]) -> dict[str, float]:
    """By unit, the share of all its instances' time for which it works, from 0 to 1."""
    busy, room = Counter[str](), Counter[str]()
    for ran in runs:
        for unit in ran.use.units:
            busy[unit.name] += ran.times * (unit.busy + unit.contended)
            room[unit.name] += unit.instances * ran.cycles
    return {name: busy[name] / room[name] for name in busy if room[name]}


def memories_of_tensors(programs: Iterable[CompiledRegion]) -> dict[str, int]:
    """How many of the operations' results stand in each memory, DRAM first. One that is stored to DRAM as well counts there."""
    found = Counter[str]()
    for compiled in programs:
        found[compiled.map.memory] += 0
        on_chip = {buffer.tensor: buffer.memory for buffer in compiled.schedule.buffers if not buffer.stored}
        for bound in compiled.region.operations:
            found[_memory(compiled, on_chip, bound.tensors["y"])] += 1
    return dict(found)


def _memory(compiled: CompiledRegion, on_chip: Mapping[str, str], name: str) -> str:
    names = (name, compiled.region.stands_in(name)[0])
    if place := next((on_chip[each] for each in names if each in on_chip), ""):
        return place
    return next((compiled.map.memory_of(each)[0] for each in names if each in compiled.map.tensors), PASSED)


PASSED = "tile"
"""The place of a result that operations of a group hand over tile by tile, and which is never there whole."""


def stages(compiled: CompiledRegion) -> Iterator[Stage]:
    """The stages of a region in the order of its operations."""
    machine, program, result = compiled.program.machine, compiled.program, compiled.timeline.result
    sizes = [_size(compiled, index) for index in range(len(compiled.region.operations))]
    for size, indices in groupby(range(len(sizes)), sizes.__getitem__):
        operations = list(indices)
        mine = np.flatnonzero(np.isin(compiled.owner, operations))
        if len(mine):
            cycles = float(result.end[mine].max() - result.start[mine].min())
            work = np.bincount(program.unit[mine], (result.end - result.start)[mine], len(machine.units))
            use = {unit.name: float(work[number]) / (cycles * machine.streams) for number, unit in enumerate(machine.units)} if cycles else {}
            yield Stage(compiled.region.name, size, len(operations), cycles, use)


def _size(compiled: CompiledRegion, index: int) -> str:
    shape = compiled.region.tensors[compiled.region.operations[index].tensors["y"]]
    return f"{shape.height} x {shape.width}"


def least_cycles(compiled: CompiledRegion) -> float:
    """Products of all images on all cores at once, or all bytes of a run through DRAM once, as they are stored."""
    machine, images = compiled.program.machine, compiled.map.rooms
    products = images * sum(bound.operation.macs for bound in compiled.region.operations)
    rooms = [compiled.map.segments[name] for name in ("inputs", "results")]
    border = sum(each.bytes - (images - 1) * each.pitch for each in rooms)  # of one image: a segment has the rooms of all
    moved = sum(map(len, compiled.constants.values())) + images * border
    return _least(machine, products, moved)


def least_of_batch(region: Region, parts: Sequence[CompiledRegion], batch: int) -> float:
    """Products of all images on all cores at once, or every weight once and every input and result of the region through DRAM."""
    machine, border = parts[0].program.machine, {*region.inputs, *region.outputs}
    products = batch * sum(bound.operation.macs for bound in region.operations)
    sizes = {name: held.bytes / part.region.images for part in parts for name, held in part.map.tensors.items() if name in border}
    moved = sum(len(data) for part in parts for data in part.constants.values()) + batch * sum(sizes.values())
    return _least(machine, products, moved)


def _least(machine: Machine, products: int, moved: float) -> float:
    """Cycles of so many products, or of so many bytes through DRAM, whichever takes longer."""
    return max(products / (machine.timing.peak_macs or products or 1), moved / float(dram_rate(machine)))


def dram_rate(machine: Machine) -> Fraction:
    """Bytes a cycle through the widest port that the whole device shares."""
    return max(Fraction(each.bytes_per_cycle, each.per) for each in machine.timing.resources if each.scope == "device")


def shares_text(shares: Mapping[str, float]) -> str:
    """`mme 35, vme 2`, in per cent."""
    return ", ".join(f"{name} {100 * share:.0f}" for name, share in shares.items())
