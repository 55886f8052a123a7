"""The operations of a bundle's programs and when they run, from the bundle alone."""

from collections.abc import Iterator, Mapping

import numpy as np

from toolchain.report.profile.program import ModelledRegion, modelled_region, timed_regions
from toolchain.report.tables import table_text
from toolchain.runtime.contents import Bundle
from toolchain.spec.errors import one_line
from toolchain.spec.model import Machine

HEAD = ("region", "operation", "kernel", "instructions", "first cycle", "last cycle", "busiest unit", "its cycles")


def bundle_operations(bundle: Bundle, machines: Mapping[str, Machine], place: str, terminal: bool = False, width: int = 120) -> str:
    """A line for each operation of each program, in the order in which they start; ends in one line feed. Raises as `modelled_region`."""
    regions = timed_regions(bundle, machines).values()
    timed = [modelled_region(bundle, region, machines[region.target], place) for region in regions]
    rows = [row for region in timed for row in _rows(region)]
    return table_text(list(HEAD), rows, (0, 1, 2, 6), terminal, width) if rows else "no programs of instructions\n"


def _rows(region: ModelledRegion) -> Iterator[list[str]]:
    program, result = region.timeline.program, region.timeline.result
    mine = {number: np.flatnonzero(region.owner == number) for number in range(len(region.operations))}
    there = {number: index for number, index in mine.items() if len(index)}
    for number, index in sorted(there.items(), key=lambda each: float(result.start[each[1]].min())):
        busy = np.bincount(program.unit[index], (result.end - result.start)[index])
        unit = int(busy.argmax())
        yield [
            region.name, one_line(region.operations[number]), region.legend.nodes[number].kind, f"{len(index):,}",
            f"{result.start[index].min():,.0f}", f"{result.end[index].max():,.0f}", program.machine.units[unit].name, f"{busy[unit]:,.0f}",
        ]  # fmt: skip
