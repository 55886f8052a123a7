"""One build at a time in a folder: the second waits, says so, and then finds the work done."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolchain.spec.errors import fail

NAME = ".lock"
PATIENCE = 0.5
"""Seconds of silent waiting."""


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Holds the folder, made if need be; the system lets go of it however the process ends. Raises UserError E0005."""
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / NAME)
        try:
            lock.acquire(timeout=PATIENCE)
        except filelock.Timeout:
            print(f"{folder}: another build is at work here; waiting for it", file=sys.stderr, flush=True)
            lock.acquire()
    except OSError as error:
        raise fail("E0005", f"cannot write into the folder: {error.strerror}", place=str(folder)) from None
    try:
        yield
    finally:
        lock.release()
