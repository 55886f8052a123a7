"""Programs as hex text: one little-endian 32-bit word a line, eight digits, first word first."""

import re

import numpy as np

from toolchain.spec.errors import Source, Span, fail

_WORD = re.compile(r"[0-9a-fA-F]{8}\Z")
_DIGITS = re.compile(r"[0-9a-fA-F]{0,8}")
_QUOTED = 40


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
