"""Examples of instructions: of each kind that a program has, its first one as assembly and as bytes."""

from dataclasses import dataclass

import numpy as np

from toolchain.isa.assembly.disassembler import line_of
from toolchain.isa.encode import lengths
from toolchain.isa.program import Program


@dataclass(frozen=True)
class Example:
    """line: of assembly. data: the encoded instruction."""

    line: str
    data: bytes


def examples_of(program: Program) -> dict[str, Example]:
    """By name of the instruction, in the machine's order."""
    found: dict[str, Example] = {}
    sizes = lengths(program.machine)
    for kind in np.unique(program.kind).tolist():
        index = int(np.argmax(program.kind == kind))
        start = int(program.offset[index])
        data = program.streams[int(program.stream[index])][start : start + int(sizes[kind])]
        found[program.machine.instructions[kind].name] = Example(line_of(program, index), data)
    return found
