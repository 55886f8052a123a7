"""Hashes of the toolchain's own code, package by package: a stage is run again when code that it can reach changed."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from toolchain.spec.resources import PACKAGE

ENDINGS = (".py", ".yaml", ".json", ".j2", ".c", ".h")


def code_hashes(packages: Sequence[str], libraries: Sequence[str]) -> Mapping[str, str]:
    """By name: SHA-256 of what a package holds, version of what others made."""
    return {name: package_hash(PACKAGE / name) for name in packages} | {name: version(name) for name in libraries}


def package_hash(folder: Path) -> str:
    """The hash of names and contents of every source file below a folder."""
    found = hashlib.sha256()
    for path in _sources(str(folder)):
        data = Path(path).read_bytes()
        found.update(f"{path[len(str(folder)) :]} {len(data)}\n".encode())
        found.update(data)
    return found.hexdigest()


def _sources(folder: str) -> list[str]:
    """os.scandir is several times as fast as Path.rglob, and this is most of a build that has nothing to do."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and not entry.name.startswith(("_", ".")):
                found += _sources(entry.path)
            elif entry.name.endswith(ENDINGS):
                found.append(entry.path)
    return sorted(found)
