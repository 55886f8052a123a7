"""Memory that another process maps by a path: sealed where the system can do it, so that nobody may take away what is mapped here.

A page behind the end of a mapped file is a signal that ends the process (SIGBUS). Linux lets the maker of a file in memory forbid that it shrinks or
grows. Elsewhere a file in a temporary folder stands in for it; then its size is looked at before its bytes are.
"""

import fcntl
import mmap
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from toolchain.spec.errors import fail

SHARED = Path("/dev/shm")
"""A folder in memory, where the system has one."""
OPEN_FILES = Path("/proc/self/fd")
"""A folder of the files that a process has open, where the system has one."""


@dataclass(frozen=True)
class SharedMemory:
    """path: another process opens it, while `sharing` lasts. memory: zeros at first. size: bytes. sealed: neither process can change the size."""

    path: str
    memory: mmap.mmap
    size: int
    sealed: bool
    _file: FileIO

    def is_whole(self) -> bool:
        """Whether all of the memory may still be read."""
        return self.sealed or os.fstat(self._file.fileno()).st_size >= self.size

    def close(self) -> None:
        """Lets go of the file, once or again; what is mapped stays as long as something refers to it."""
        self._file.close()


@contextmanager
def sharing(size: int) -> Generator[SharedMemory]:
    """New memory of so many bytes, which other processes can open until the end. Raises UserError E0713 where there is no room."""
    try:
        shared = _sealed(size) or _plain(size)
    except OSError as error:
        raise fail("E0713", f"no memory of {size} bytes can be shared with a device: {error.strerror}") from None
    try:
        yield shared
    except BaseException:
        shared.close()
        raise
    finally:
        if not shared.sealed:
            Path(shared.path).unlink(missing_ok=True)


def _sealed(size: int) -> SharedMemory | None:
    """None where the system has no such files, or shows them nowhere."""
    if sys.platform != "linux" or not OPEN_FILES.is_dir():
        return None
    file = FileIO(os.memfd_create("tilewright", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+")
    try:
        file.truncate(size)
        memory = mmap.mmap(file.fileno(), size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError:
        file.close()
        raise
    return SharedMemory(f"/proc/{os.getpid()}/fd/{file.fileno()}", memory, size, True, file)


def _plain(size: int) -> SharedMemory:
    number, path = tempfile.mkstemp(prefix="tilewright-", dir=SHARED if SHARED.is_dir() else None)
    file = FileIO(number, "r+")
    try:
        file.truncate(size)
        return SharedMemory(path, mmap.mmap(number, size), size, False, file)
    except OSError:
        file.close()
        Path(path).unlink()
        raise
