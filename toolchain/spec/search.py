"""Folders that hold machines and models: the user's, this package's own, and those of other installed packages."""

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from toolchain.spec.errors import fail
from toolchain.spec.files import is_folder
from toolchain.spec.resources import PACKAGE

Kind = Literal["targets", "models"]
_VARIABLES = {"targets": "TILEWRIGHT_PATH", "models": "TILEWRIGHT_MODELS"}


def search_path(kind: Kind) -> list[Path]:
    """Every folder: those of the user's variable and ./KIND, in which the first one wins, then those of packages."""
    return list(dict.fromkeys([*_users(kind), *_packaged(kind)]))


def list_files(kind: Kind) -> dict[str, Path]:
    """Every machine or model by name; the first folder wins."""
    found: dict[str, Path] = {}
    for folder in search_path(kind):
        for path in sorted(folder.glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def check_single(kind: Kind, name: str) -> None:
    """Raises UserError E0006 for a name of two packages, unless a folder of the user's has it: between packages there is no order."""
    file = f"{name}.yaml"
    if any((folder / file).is_file() for folder in _users(kind)):
        return
    places = list(dict.fromkeys(path.resolve() for folder in _packaged(kind) if (path := folder / file).is_file()))
    if len(places) > 1:
        listed = ", ".join(map(str, places))
        raise fail("E0006", f"several installed packages have '{name}' in their {kind}: {listed}", hint="give the path of one of the files")


def _users(kind: Kind) -> list[Path]:
    named = [Path(part) for part in os.environ.get(_VARIABLES[kind], "").split(os.pathsep) if part]
    return [folder for folder in (*named, Path(kind)) if is_folder(folder)]


def _packaged(kind: Kind) -> list[Path]:
    """This package's own, in a checkout or installed, and others'."""
    return [folder for folder in (PACKAGE.parent / kind, PACKAGE / "_data" / kind, *_others(kind, tuple(sys.path))) if is_folder(folder)]


@cache
def _others(kind: Kind, installed: tuple[str, ...]) -> tuple[Path, ...]:
    """Folders that the entry points `tilewright.KIND` name as PACKAGE.FOLDER, in the order of the names. The packages are not imported.

    installed: the folders of packages, on which the answer depends.
    """
    if not any(map(_may_name_folders, installed)):
        return ()
    from importlib.metadata import entry_points  # a tenth of what a short command takes

    found = list[Path]()
    for point in sorted(entry_points(group=f"tilewright.{kind}"), key=lambda point: (point.name, point.value)):
        package, *parts = point.value.split(".")
        spec = find_spec(package) if package.isidentifier() else None
        roots = (spec.submodule_search_locations or ()) if spec else ()
        found += [Path(root, *parts) for root in roots]
    return tuple(found)


def _may_name_folders(folder: str) -> bool:
    """Whether a package below this folder of packages has entry points of ours, as far as the text of its files tells; an archive may."""
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208  # paths take longer than all the rest
    except OSError:
        return Path(folder).is_file()
    return any(_names_folders(f"{folder or '.'}/{name}/entry_points.txt") for name in names if name.lower().endswith(("dist-info", "egg-info")))


def _names_folders(path: str) -> bool:
    try:
        return b"tilewright." in Path(path).read_bytes()
    except OSError:
        return False
