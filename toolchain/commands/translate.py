"""`tilewright asm` and `tilewright disasm`"""

import argparse
import sys
from pathlib import Path

from toolchain.commands.machine import machine_of
from toolchain.commands.stopwatch import sign


def assemble(arguments: argparse.Namespace) -> None:
    """Assembles a file; the output's suffix chooses the form (.hex words, .two container, anything else raw)."""
    from toolchain.isa.program_file import load_program, save_program

    machine = machine_of(arguments)
    source = Path(arguments.source)
    suffix = ".two" if machine.streams > 1 else ".bin"
    output = Path(arguments.output) if arguments.output else source.with_suffix(suffix)
    with sign("assembling"):
        program = load_program(machine, source)
        save_program(program, output)
    print(f"{output}: {len(program)} instructions, {sum(map(len, program.streams))} bytes")


def disassemble(arguments: argparse.Namespace) -> None:
    """Writes assembly that assembles to the same bytes."""
    from toolchain.isa.assembly.disassembler import disassemble as text_of
    from toolchain.isa.program_file import load_program
    from toolchain.spec.files import write_atomic

    comments = None
    with sign("disassembling"):
        program = load_program(machine_of(arguments), Path(arguments.program))
        if arguments.footprints:
            from toolchain.report.footprint_comments import footprint_comments

            comments = footprint_comments(program)
        text = text_of(program, comments)
    if arguments.output:
        write_atomic(Path(arguments.output), text.encode())
    else:
        sys.stdout.write(text)
