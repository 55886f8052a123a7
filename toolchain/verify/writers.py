"""DOC"""

from collections.abc import Sequence

import numpy as np

from toolchain.abi.dram_map import DramMap, host_axes, packing_of
from toolchain.isa.assembly.disassembler import disassemble
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.text import range_text
from toolchain.isa.program import Ints, Program
from toolchain.spec.model import Machine
from toolchain.verify.verdict import Coordinates, LastWriter

SOURCES = 6


def element_address(machine: Machine, stands: DramMap, tensor: str, coordinates: Coordinates) -> int:
    """The byte of DRAM where the element at (image, channel, row, column) begins."""
    stored = stands.tensors[tensor]
    packing = packing_of(machine, stored)
    host = [coordinates[axis] for axis in host_axes(packing.layout)]
    place = [int(np.broadcast_to(axis, packing.extents)[tuple(host)]) for axis in packing.index]
    scalar = int(np.ravel_multi_index(place, packing.shape))
    return stands.segments[stored.segment].address + stored.offset + scalar * packing.dtype.itemsize


def last_writer(prints: Footprints, rank: Ints, memory: str, granule: int, stop: int) -> int | None:
    """The last of the first `stop` instructions that writes a granule, counted as in footprints; None where none does. rank: the place of each
    instruction of the program in the order in which they run."""
    machine, runs = prints.program.machine, prints.runs
    number = machine.memories.index(machine.memory[memory])
    touches = runs.write & (runs.memory == number) & (runs.start <= granule) & (granule < runs.stop) & (rank[runs.instruction] < stop)
    return _last(rank, runs.instruction[touches])


def _last(rank: Ints, instructions: Ints) -> int | None:
    """The one of these that runs last."""
    return int(instructions[np.argmax(rank[instructions])]) if len(instructions) else None


def describe_writer(prints: Footprints, rank: Ints, memory: str, granule: int, index: int, listing: Sequence[str]) -> LastWriter:
    """The instruction in words, and those that its value came from."""
    machine = prints.program.machine
    place = range_text(machine, machine.memories.index(machine.memory[memory]), granule, granule + 1, memory in prints.alike)
    before = tuple(f"{instruction_text(prints.program, k)} ({listing[k]})" for k in sources(prints, rank, index))
    return LastWriter(index, instruction_text(prints.program, index), listing[index], place, before)


def sources(prints: Footprints, rank: Ints, index: int) -> list[int]:
    """At most SOURCES instructions, back from `index`: each is the last that wrote something which the one after it reads on chip."""
    chain: list[int] = []
    while len(chain) < SOURCES and (earlier := _last_source(prints, rank, chain[-1] if chain else index)) is not None:
        chain.append(earlier)
    return chain


def _last_source(prints: Footprints, rank: Ints, index: int) -> int | None:
    machine, runs = prints.program.machine, prints.runs
    mine = runs.take(np.arange(int(prints.first[index]), int(prints.first[index + 1])))
    earlier = runs.take(runs.write & (rank[runs.instruction] < rank[index]))
    found = list[Ints]()
    for row in np.flatnonzero(~mine.write).tolist():
        memory = machine.memories[int(mine.memory[row])]
        if memory.kind != "dram" and not memory.control:
            touched = (earlier.memory == mine.memory[row]) & (earlier.start < mine.stop[row]) & (mine.start[row] < earlier.stop)
            found.append(earlier.instruction[touched])
    return _last(rank, np.concatenate(found)) if found else None


def instruction_text(program: Program, index: int) -> str:
    """`#12 LOAD at 0xc0: LOAD memory_type=2 ...`"""
    return f"{program.label(index)}: {_line(program, index)}"


def _line(program: Program, index: int) -> str:
    """The instruction's line of the disassembly, without those of the others."""
    kind, row = int(program.kind[index]), int(program.row[index])
    none = np.zeros(0, np.int64)
    columns = tuple({name: (values[row : row + 1] if k == kind else none) for name, values in own.items()} for k, own in enumerate(program.columns))
    one = slice(index, index + 1)
    alone = Program(
        program.machine, (), program.kind[one], program.stream[one], program.offset[one], program.unit[one], np.zeros(1, np.int64), columns
    )
    return disassemble(alone).splitlines()[-1]
