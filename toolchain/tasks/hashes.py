"""SHA-256 of files, read again only where size or time changed since the last look."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

CHUNK = 1 << 20


class Seen(NamedTuple):
    """A file as it was: bytes, nanoseconds of its last change, SHA-256 in hex."""

    size: int
    time: int
    digest: str


ABSENT = Seen(0, 0, "none")


def look(path: Path, before: Seen | None = None) -> Seen | None:
    """The file as it is, None where there is none; not read when size and time are those of `before`."""
    try:
        found = path.stat()
        if before and (found.st_size, found.st_mtime_ns) == (before.size, before.time):
            return before
        return Seen(found.st_size, found.st_mtime_ns, _digest(path, found.st_size, found.st_mtime_ns))
    except OSError:
        return None


def seen(*paths: Path) -> dict[Path, Seen]:
    """Files as they are now; called before they are read, so that whatever is written meanwhile counts as a change."""
    return {path: look(path) or ABSENT for path in paths}


def stamped(path: Path, digest: str) -> Seen:
    """The file as it is now, its SHA-256 being known. Raises FileNotFoundError."""
    found = path.stat()
    return Seen(found.st_size, found.st_mtime_ns, digest)


def changed(files: Mapping[Path, Seen]) -> list[Path]:
    """Files that changed since they were hashed."""
    return [path for path, before in files.items() if (look(path, before) or ABSENT).digest != before.digest]


@lru_cache(maxsize=1024)
def _digest(path: Path, _size: int, _time: int) -> str:
    """Read once in a process for each size and time: several stages ask for the same files."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            found.update(part)
    return found.hexdigest()


def digest_of(parts: Mapping[str, str]) -> str:
    """The hash of names and hashes, in whatever order they are given."""
    text = "\n".join(f"{name} {value}" for name, value in sorted(parts.items()))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()  # the name of a file need not be UTF-8
