"""Latched registers that are read without having been written, a second time, or outside of their depth."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.footprint.provenance import Provenance, register_instance
from toolchain.spec.errors import Diagnostic
from toolchain.spec.model import Memory


def stale_reads(provenance: Provenance, written: Mapping[str, NDArray[np.bool_]]) -> list[Diagnostic]:
    """E0606 for a register that no instruction wrote, of the program or before it (`written`, as in State), E0607 for a value that was used up,
    E0610 for no such index."""
    registers = [m for m in provenance.program.machine.memories if m.kind == "register"]
    found = [d for memory in registers for d in _strays(provenance, memory)]
    return found + [d for memory in registers if memory.latches for d in _register(provenance, memory.name, written[memory.name])]


def _strays(provenance: Provenance, memory: Memory) -> Iterator[Diagnostic]:
    for instruction, index in zip(*provenance.strays(memory.name), strict=True):
        yield Diagnostic(
            "E0610", f"{provenance.program.label(int(instruction))} uses {memory.name}[{int(index)}], which has {memory.depths[0]} entries"
        )


def _register(provenance: Provenance, name: str, written: NDArray[np.bool_]) -> Iterator[Diagnostic]:
    program, memory = provenance.program, provenance.program.machine.memory[name]
    reads = provenance.reads(name)

    def shown(row: int) -> str:
        return f"{name}[{int(reads.index[row])}]" if memory.depths[0] > 1 else name

    bare = (reads.source == -1) & ~written[register_instance(program, name, reads.instruction), reads.index]
    for row in np.flatnonzero(bare).tolist():
        label = program.label(int(reads.instruction[row]))
        yield Diagnostic("E0606", f"{label} uses {shown(row)}, which no instruction has set", hint=f"put {memory.latches} before it")
    if memory.consumed:
        slot = register_instance(program, name, reads.instruction) * memory.depths[0] + reads.index
        rank = np.lexsort((provenance.position[reads.instruction], slot))
        again = (np.diff(slot[rank], prepend=-1) == 0) & (np.diff(reads.source[rank], prepend=-3) == 0) & (reads.source[rank] >= 0)
        for place in np.flatnonzero(again).tolist():
            row, before = int(rank[place]), int(rank[place - 1])
            first, second = (program.label(int(reads.instruction[r])) for r in (before, row))
            yield Diagnostic(
                "E0607",
                f"{second} uses {shown(row)} as {program.label(int(reads.source[row]))} set it, but {first} has used that up",
                hint=f"put another {memory.latches} between them",
            )
