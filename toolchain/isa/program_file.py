"""Programs in files, in any of their forms: assembly, container, one stream, words in hexadecimal."""

import re
from pathlib import Path

import numpy as np

from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.assembly.disassembler import disassemble
from toolchain.isa.binary.container import MAGIC, read_container, write_container
from toolchain.isa.binary.decode import decode
from toolchain.isa.program import Program
from toolchain.spec.errors import Source, Span, fail
from toolchain.spec.files import read_limited, write_atomic
from toolchain.spec.model import Machine

MAX_BYTES = 1 << 28
CONTAINER = ".two"
_WORD = re.compile(r"[0-9a-fA-F]{8}\Z")
_DIGITS = re.compile(r"[0-9a-fA-F]{0,8}")
_QUOTED = 40


def load_program(machine: Machine, path: Path) -> Program:
    """The program in a file: `.asm` is assembly, `.hex` words as text, a zip an object container, anything else raw bytes.

    A file named `.bin` is raw whatever it begins with. Raises UserError: E0001, E0330 for the file, E03xx and E04xx for
    what is in it.
    """
    data = read_limited(path, MAX_BYTES, "the program")
    place = str(path)
    if path.suffix == ".asm":
        return assemble(machine, Source(place, _text(data, place)))
    if path.suffix == CONTAINER or (path.suffix not in (".hex", ".bin") and data.startswith(MAGIC)):
        return decode(machine, read_container(machine, data, place), place)
    if machine.streams > 1:
        raise fail(
            "E0409",
            f"{machine.name} runs {machine.streams} streams, this file holds one",
            hint=f"use a {CONTAINER} container or assembly",
            place=place,
        )
    return decode(machine, [read_hex(Source(place, _text(data, place))) if path.suffix == ".hex" else data], place)


def _text(data: bytes, place: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"cannot read the program: byte {error.start:#x} is not UTF-8 text", place=place) from None


def save_program(program: Program, path: Path) -> None:
    """Writes a program, whole or not at all: `.asm`, `.hex`, `.two`, anything else raw. Raises UserError E0005, E0311, E0409."""
    if path.suffix == ".asm":
        data = disassemble(program).encode()
    elif path.suffix == CONTAINER:
        data = write_container(program)
    elif len(program.streams) > 1:
        raise fail("E0409", f"a file of this form holds one stream, the program has {len(program.streams)}", hint=f"use {CONTAINER}", place=str(path))
    else:
        only = b"".join(program.streams)
        data = write_hex(only, str(path)).encode() if path.suffix == ".hex" else only
    write_atomic(path, data)


def read_hex(source: Source) -> bytes:
    """The bytes of a hex text. Raises UserError E0310 at the first line that is not a word."""
    lines = source.text.replace("\r\n", "\n").removesuffix("\n").split("\n") if source.text else []
    for number, line in enumerate(lines, 1):
        if not _WORD.match(line):
            column = len("".join(_DIGITS.findall(line)[:1])) + 1
            raise fail("E0310", f"'{line[:_QUOTED]}' is not a word", Span(source, number, column), "write eight hexadecimal digits")
    return np.frombuffer(bytes.fromhex("".join(lines)), ">u4").astype("<u4").tobytes()


def write_hex(data: bytes, place: str = "") -> str:
    """The hex text of a program. Raises UserError E0311 when its length is not a multiple of four bytes."""
    if len(data) % 4:
        raise fail("E0311", f"the program has {len(data)} bytes, not a multiple of 4", place=place)
    return "".join(f"{word:08x}\n" for word in np.frombuffer(data, "<u4").tolist())
