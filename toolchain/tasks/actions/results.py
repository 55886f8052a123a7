"""Results that a task left in a file for others, which anybody may have edited since."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from toolchain.spec.errors import fail

T = TypeVar("T")


def read_result(path: Path, read: Callable[[str], T]) -> T:
    """The file's text as `read` understands it. Raises UserError E1206 where the task did not write it so."""
    try:
        return read(path.read_text())
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise fail("E1206", "this is not as the task wrote it", hint="delete the file, and ask again", place=str(path)) from None
