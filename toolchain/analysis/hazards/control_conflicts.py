"""Addresses must not depend on data: control memories are loaded from what no instruction stores, and not by their readers."""

from collections.abc import Iterator

import numpy as np

from toolchain.analysis.hazards.in_place import touches_both
from toolchain.isa.checks import MOST
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.text import range_text
from toolchain.spec.arrays import distinct
from toolchain.spec.errors import Diagnostic


def control_conflicts(prints: Footprints) -> list[Diagnostic]:
    """E0608 for each load of control from a place that is stored to, and each instruction that reads control which it writes."""
    return [*_overwritten(prints), *_own(prints)]


def _own(prints: Footprints) -> Iterator[Diagnostic]:
    runs, program = prints.runs, prints.program
    control = np.array([m.control for m in program.machine.memories])
    mine = runs.take(control[runs.memory])
    for row in touches_both(mine)[: MOST + 1].tolist():
        name = program.machine.memories[int(mine.memory[row])].name
        message = f"{program.label(int(mine.instruction[row]))} reads the control memory '{name}' and writes it"
        yield Diagnostic("E0608", message, hint="load it with an instruction before")


def _overwritten(prints: Footprints) -> Iterator[Diagnostic]:
    """E0608 where the program stores over what it loads a control memory from: its addresses would depend on data."""
    feeds, runs = prints.feeds, prints.runs
    for memory in distinct(feeds.memory).tolist():
        sources, stores = feeds.take(feeds.memory == memory), runs.take((runs.memory == memory) & runs.write)
        if not len(stores):
            continue
        rank = np.argsort(stores.start, kind="stable")
        stores = stores.take(rank)
        reach = np.maximum.accumulate(stores.stop)
        # The last store that starts before a source ends: some store meets the source if the farthest of those before it does.
        last = np.searchsorted(stores.start, sources.stop) - 1
        meets = (last >= 0) & (reach[np.maximum(last, 0)] > sources.start)
        for row in np.flatnonzero(meets)[: MOST + 1].tolist():
            writer = int(np.argmax((stores.start < sources.stop[row]) & (stores.stop > sources.start[row])))
            low, high = max(int(stores.start[writer]), int(sources.start[row])), min(int(stores.stop[writer]), int(sources.stop[row]))
            program = prints.program
            loader, storer = program.label(int(sources.instruction[row])), program.label(int(stores.instruction[writer]))
            message = f"{loader} loads control from {range_text(program.machine, memory, low, high)}, where {storer} stores"
            yield Diagnostic("E0608", message, hint="addresses must not depend on data that the program computes")
