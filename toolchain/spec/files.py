"""Reading and writing whole files, with a user's message for whatever the system refuses."""

import os
from pathlib import Path

from toolchain.spec.errors import fail


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file so that it appears whole or not at all, whoever looks or interrupts. Raises UserError E0005."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        raise fail("E0005", f"cannot write the file: {error.strerror}", place=str(path)) from None
    finally:
        _forget(beside)


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def is_file(path: Path) -> bool:
    """Whether a file is there; a path that the system refuses (too long, in a closed folder) is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder is there; a path that the system refuses is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def read_limited(path: Path, limit: int, what: str) -> bytes:
    """The bytes of a file of at most `limit` bytes. Raises UserError E0001 (cannot be read), E0330 (too large)."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise fail("E0001", f"cannot read {what}: {error.strerror}", place=str(path)) from None
    if len(data) > limit:
        raise fail("E0330", f"{what} is larger than {limit} bytes", place=str(path))
    return data
