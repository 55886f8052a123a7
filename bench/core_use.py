"""The work of units, the memories of tensors and the stages of compiled regions, as GraphTurbo's figures 16 and 17 and its table 3 have them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.timing.usage import summarise

Runs = Sequence[tuple[int, CompiledRegion]]
"""Programs, and how often each runs."""


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


def unit_use(runs: Runs) -> dict[str, float]:
    """By unit, the share of all its instances' time for which it works, from 0 to 1."""
    busy, room = Counter[str](), Counter[str]()
    for times, compiled in runs:
        for unit in summarise(compiled.timeline).units:
            busy[unit.name] += times * (unit.busy + unit.contended)
            room[unit.name] += times * unit.instances * compiled.cycles
    return {name: busy[name] / room[name] for name in busy if room[name]}


def memories_of_tensors(runs: Runs) -> dict[str, int]:
    """How many of the operations' results stand in each memory, DRAM first. One that is stored to DRAM as well counts there."""
    found = Counter[str]()
    for _, compiled in runs:
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


def shares_text(shares: Mapping[str, float]) -> str:
    """`mme 35, vme 2`, in per cent."""
    return ", ".join(f"{name} {100 * share:.0f}" for name, share in shares.items())
