"""The receipt that a stage leaves beside its files: their sources, and that they are whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.spec.files import write_atomic
from toolchain.tasks.hashes import ABSENT, Seen, changed, digest_of, seen, stamped


@dataclass(frozen=True)
class Receipt:
    """parts: hash of everything known beforehand that the stage depends on, by its name. read: files that it read, by path.

    written: its files, by path below its folder.
    """

    parts: Mapping[str, str]
    read: Mapping[str, Seen]
    written: Mapping[str, Seen]

    @property
    def result(self) -> str:
        """Hash of all that was written: what later stages depend on."""
        return digest_of({name: entry.digest for name, entry in self.written.items()})

    def changes(self, parts: Mapping[str, str], folder: Path) -> list[str]:
        """Names of what is not as it was; empty where the stage needs not run again."""
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
    parts: Mapping[str, str], read: Mapping[Path, Seen], written: Sequence[Path], folder: Path, digests: Mapping[Path, str] | None = None
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
        read, written = ({str(name): Seen(*entry) for name, entry in found[key].items()} for key in ("read", "written"))
        return Receipt({str(name): str(value) for name, value in found["parts"].items()}, read, written)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Raises UserError E0005."""
    data = {"parts": dict(receipt.parts), "read": dict(receipt.read), "written": dict(receipt.written)}
    write_atomic(path, (json.dumps(data, indent=1) + "\n").encode())
