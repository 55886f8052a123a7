"""Accesses to the registers that hold an instruction's fields, as runs like those of memories."""

from collections.abc import Iterator

import numpy as np

from toolchain.isa.footprint.footprints import Runs, join_runs, merge_runs
from toolchain.isa.footprint.provenance import Provenance, register_instance


def register_runs(provenance: Provenance) -> Runs:
    """Every read and every latch, one granule an entry; merged and sorted as in Footprints."""
    return merge_runs(join_runs(list(_runs(provenance))))


def _runs(provenance: Provenance) -> Iterator[Runs]:
    program = provenance.program
    for number, memory in enumerate(program.machine.memories):
        if memory.latches:
            reads, latches = provenance.reads(memory.name), provenance.latches(memory.name)
            slot = register_instance(program, memory.name, reads.instruction) * memory.depths[0] + reads.index
            for who, where, write in ((reads.instruction, slot, False), (latches.instruction, latches.slot, True)):
                yield Runs(who, np.full(len(who), number), np.full(len(who), write), where, where + 1)
