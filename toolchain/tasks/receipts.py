"""The receipt that a stage leaves beside its files: their sources, and that they are whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.spec.files import write_atomic
from toolchain.tasks.hashes import Seen, digest_of, look


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
        return digest_of({name: seen.digest for name, seen in self.written.items()})

    def changes(self, parts: Mapping[str, str], folder: Path) -> list[str]:
        """Names of what is not as it was; empty where the stage needs not run again."""
        changed = [name for name in sorted({*self.parts, *parts}) if self.parts.get(name) != parts.get(name)]
        changed += [name for name, seen in self.read.items() if _differs(Path(name), seen)]
        return changed + [str(folder / name) for name, seen in self.written.items() if _differs(folder / name, seen)]

    def foreign(self, folder: Path) -> list[Path]:
        """Files below the folder that are there and not as they were written, or that were not written at all."""
        there = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        own = {folder / name: seen for name, seen in self.written.items()}
        return [path for path in there if path not in own or _differs(path, own[path])]


def _differs(path: Path, before: Seen) -> bool:
    now = look(path, before)
    return now is None or now.digest != before.digest


def new_receipt(parts: Mapping[str, str], read: Sequence[Path], written: Sequence[Path], folder: Path) -> Receipt:
    """A receipt for files as they are now. Raises FileNotFoundError for one that is not there."""
    return Receipt(parts, {str(path): _seen(path) for path in read}, {str(path.relative_to(folder)): _seen(path) for path in sorted(written)})


def _seen(path: Path) -> Seen:
    found = look(path)
    if found is None:
        raise FileNotFoundError(2, "No such file", str(path))
    return found


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
