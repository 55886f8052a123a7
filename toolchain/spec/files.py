"""Reading and writing whole files, with a user's message for whatever the system refuses."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from toolchain.spec.errors import fail


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file so that it appears whole or not at all, whoever looks or interrupts. Raises UserError E0005."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """A file to write, which appears at `path` when the block ends well. A link is followed; a device or a pipe is written as it stands.

    Raises UserError E0005 for whatever the system refuses.
    """
    target = path if _is_stream(path) else Path(os.path.realpath(path))
    beside = path if target is path else target.parent / f".{target.name}.{os.getpid()}.part"
    try:
        with beside.open("wb") as file:
            yield file
        if beside is not path:
            beside.replace(target)
    except OSError as error:
        raise fail("E0005", f"cannot write the file: {error.strerror}", place=str(path)) from None
    finally:
        if beside is not path:
            _forget(beside)


def require_writable(path: Path) -> None:
    """Raises UserError E0005 now for what `replacing` would only say after the work: no folder, a closed one, a folder in its place."""
    folder = Path(os.path.realpath(path)).parent
    if is_folder(path):
        code = errno.EISDIR
    elif not is_folder(folder):
        code = errno.ENOTDIR if is_file(folder) else errno.ENOENT
    elif _is_stream(path) or os.access(folder, os.W_OK | os.X_OK):
        return
    else:
        code = errno.EACCES
    raise fail("E0005", f"cannot write the file: {os.strerror(code)}", place=str(path))


def _is_stream(path: Path) -> bool:
    """Whether something stands there that cannot be replaced: a device, a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


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
