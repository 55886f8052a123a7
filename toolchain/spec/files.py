"""Files: the package's own, those of users, and the folders that hold machines and models.

Whole files are read and written, and a refusal of the operating system becomes a user's message.
"""

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Literal

from toolchain.spec.errors import fail

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
    """os.scandir is several times as fast as Path.rglob, and this is most of the time of a build that is up to date."""
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and not entry.name.startswith(("_", ".")):
                found += _sources(entry.path)
            elif entry.name.endswith(ENDINGS):
                found.append(entry.path)
    return sorted(found)


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
    """Raises UserError E0005 now for faults that `replacing` would only meet after the work: no folder, a closed one, a folder in its place."""
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


Contents = tuple[tuple[str, bytes | tuple[int, int, int]], ...]
WHOLE = 1 << 20
"""Bytes of the largest file that is compared by its content."""


def contents(folder: Path | None) -> Contents:
    """Tells one state of a folder's files from the next, for caches of what is read there: the path and bytes of each, for a large file its inode,
    size and time of the last change."""
    found: list[tuple[str, bytes | tuple[int, int, int]]] = []
    for path in sorted(folder.rglob("*")) if folder else ():
        with suppress(OSError):
            state = path.stat()
            if stat.S_ISREG(state.st_mode):
                small = state.st_size <= WHOLE
                found.append((str(path), path.read_bytes() if small else (state.st_ino, state.st_size, state.st_mtime_ns)))
    return tuple(found)


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
    from importlib.metadata import entry_points  # a tenth of a short command's time

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
