"""Reads and writes of each instruction, for listings, from the program alone."""

from collections.abc import Callable

from toolchain.analysis.checks import prepare_program
from toolchain.analysis.state import new_state
from toolchain.isa.footprint.text import comment, controlled
from toolchain.isa.program import Program


def footprint_comments(program: Program) -> Callable[[int], str]:
    """The comment of an instruction, by its index.

    Host registers count as 0, so addresses are relative to them. Contents loaded into control memories are not in a program:
    of addresses that depend on it only the memory is named. Raises UserError E0501 for a program that deadlocks.
    """
    prints, unknown = prepare_program(program, new_state(program.machine)).footprints, controlled(program.machine)
    return lambda index: comment(prints, index, unknown)
