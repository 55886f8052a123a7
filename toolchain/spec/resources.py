"""Files of the package that the loaders of machines and models read, and the hash of its code."""

import hashlib
import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SCHEMA = PACKAGE / "schemas" / "target.schema.json"
MODEL_SCHEMA = PACKAGE / "schemas" / "model.schema.json"
ENDINGS = (".py", ".yaml", ".json", ".j2", ".c", ".h")


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
