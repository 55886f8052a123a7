"""Refuses text that Python's parser would take, or warn about, but our languages do not have: strings, odd numbers."""

import re
from collections.abc import Callable

from toolchain.spec.errors import Span, fail

Locate = Callable[[int, int], Span]
"""Maps a line (from 1) and a column (from 0) of a text of its own to its place in the file."""

_ODD = re.compile(r"""["'\\`$?!](?!=)|[^\x00-\x7f]|[\x00-\x08\x0b-\x1f]""")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_])[0-9][A-Za-z0-9_.]*")
_INTEGER = re.compile(r"(0|[1-9][0-9]*(_[0-9]+)*|0x[0-9a-fA-F]+(_[0-9a-fA-F]+)*|0b[01]+(_[01]+)*)\Z")
MAX_DIGITS = 80


def check_text(text: str, locate: Locate) -> None:
    """Raises UserError E0121 for a character or number outside the language; comments may hold anything."""
    for number, line in enumerate(text.split("\n"), 1):
        code = line.partition("#")[0]
        if found := _ODD.search(code):
            what = "text in quotes" if found.group() in "'\"" else f"the character {found.group()!a}"
            raise fail("E0121", f"{what} is not part of the expression language", locate(number, found.start()))
        for found in _NUMBER.finditer(code):
            if not _INTEGER.match(found.group()) or len(found.group()) > MAX_DIGITS:
                raise fail("E0121", f"'{found.group()[:MAX_DIGITS]}' is not an integer", locate(number, found.start()))
