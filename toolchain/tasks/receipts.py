"""Receipts of stages: SHA-256 of their sources, of the toolchain's code and of the files that they made."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from toolchain.spec.files import PACKAGE, package_hash, write_atomic

CHUNK = 1 << 20


class SeenFile(NamedTuple):
    """A file as it was: bytes, nanoseconds of its last change, SHA-256 in hex."""

    size: int
    time: int
    digest: str


ABSENT = SeenFile(0, 0, "none")


def look(path: Path, before: SeenFile | None = None) -> SeenFile | None:
    """The file as it is, None where there is none; not read when size and time are those of `before`. A folder is the names in it."""
    try:
        found = path.stat()
        if before and (found.st_size, found.st_mtime_ns) == (before.size, before.time):
            return before
        return SeenFile(found.st_size, found.st_mtime_ns, _digest(path, found.st_size, found.st_mtime_ns))
    except OSError:
        return None


def seen(*paths: Path) -> dict[Path, SeenFile]:
    """Files as they are now; called before they are read, so that whatever is written meanwhile counts as a change."""
    return {path: look(path) or ABSENT for path in paths}


def stamped(path: Path, digest: str) -> SeenFile:
    """The file as it is now, its SHA-256 being known. Raises FileNotFoundError."""
    found = path.stat()
    return SeenFile(found.st_size, found.st_mtime_ns, digest)


def changed(files: Mapping[Path, SeenFile]) -> list[Path]:
    """Files that changed since they were hashed."""
    return [path for path, before in files.items() if (look(path, before) or ABSENT).digest != before.digest]


@lru_cache(maxsize=1024)
def _digest(path: Path, _size: int, _time: int) -> str:
    """Read once in a process for each size and time: several stages ask for the same files."""
    found = hashlib.sha256()
    if path.is_dir():
        return digest_of(dict.fromkeys((each.name for each in path.iterdir()), ""))
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            found.update(part)
    return found.hexdigest()


def digest_of(parts: Mapping[str, str]) -> str:
    """The hash of names and hashes, in whatever order they are given."""
    text = "\n".join(f"{name} {value}" for name, value in sorted(parts.items()))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()  # the name of a file need not be UTF-8


def code_hashes(packages: Sequence[str], libraries: Sequence[str]) -> Mapping[str, str]:
    """By name: SHA-256 of a package's files, version of a library."""
    return {name: package_hash(PACKAGE / name) for name in packages} | {name: version(name) for name in libraries}


@dataclass(frozen=True)
class Receipt:
    """parts: hash of everything known beforehand that the stage depends on, by its name. read: files that it read, by path.

    written: its files, by path below its folder.
    """

    parts: Mapping[str, str]
    read: Mapping[str, SeenFile]
    written: Mapping[str, SeenFile]

    @property
    def result(self) -> str:
        """Hash of all that was written; later stages depend on it."""
        return digest_of({name: entry.digest for name, entry in self.written.items()})

    def changes(self, parts: Mapping[str, str], folder: Path) -> list[str]:
        """Names of parts and files that differ; empty where the stage need not run again."""
        names = [name for name in sorted({*self.parts, *parts}) if self.parts.get(name) != parts.get(name)]
        files = {Path(name): entry for name, entry in self.read.items()} | {folder / name: entry for name, entry in self.written.items()}
        return names + [str(path) for path in changed(files)]

    def foreign(self, folder: Path) -> list[Path]:
        """Files below the folder that are there and not as they were written, or that were not written at all."""
        there = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        own = {folder / name: entry for name, entry in self.written.items()}
        other = changed(own)
        return [path for path in there if path not in own or path in other]


def new_receipt(
    parts: Mapping[str, str], read: Mapping[Path, SeenFile], written: Sequence[Path], folder: Path, digests: Mapping[Path, str] | None = None
) -> Receipt:
    """read: files as they were before the stage read them. Written ones are as they are now, and not read again where `digests` has their hash.

    Raises FileNotFoundError for one that is not there.
    """
    made = {path: stamped(path, digest) for path in sorted(written) if (digest := (digests or {}).get(path))}
    made = seen(*sorted({*written} - {*made})) | made
    for path in (path for path, entry in made.items() if entry == ABSENT):
        raise FileNotFoundError(2, "No such file", str(path))
    files = {str(path.relative_to(folder)): entry for path, entry in sorted(made.items())}
    return Receipt(parts, {str(path): entry for path, entry in read.items()}, files)


def read_receipt(path: Path) -> Receipt | None:
    """None where there is none, or not a whole one."""
    try:
        found: Any = json.loads(path.read_text())
        read, written = ({str(name): SeenFile(*entry) for name, entry in found[key].items()} for key in ("read", "written"))
        return Receipt({str(name): str(value) for name, value in found["parts"].items()}, read, written)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Raises UserError E0005."""
    data = {"parts": dict(receipt.parts), "read": dict(receipt.read), "written": dict(receipt.written)}
    write_atomic(path, (json.dumps(data, indent=1) + "\n").encode())
