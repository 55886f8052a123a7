"""Compiles C once and loads it: a cache by source, compiler, flags and CPU. Without a compiler there is no library."""

import atexit
import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path

import platformdirs

from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import write_atomic

LISTENER: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("LISTENER", default=nullcontext)
"""The context that is entered while the compiler runs, as its first run takes seconds: a command shows it and keeps it out of its times."""

CHECKER = Path(__file__).resolve().parents[1] / "templates" / "checker"
FLAGS = ("-std=c11", "-O3", "-march=native", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-fPIC", "-shared")
EXACT = ("-ffp-contract=off",)
"""Stands behind a user's own flags: results of floating formats must not depend on them."""
PATIENCE = 300
"""Seconds until a compiler counts as hanging."""
SOURCE = "source.c"
"""The name of the text itself beside its files."""
WITHOUT = "set TILEWRIGHT_CC=none to do without C"


def compiler() -> str:
    """The C compiler's path: $TILEWRIGHT_CC, else cc, gcc or clang; empty where there is none or the variable says `none`.

    Raises UserError E0720 where the variable names a compiler that is not there.
    """
    return _compiler(os.environ.get("TILEWRIGHT_CC", ""), os.environ.get("PATH"))


@functools.lru_cache(maxsize=8)
def _compiler(wanted: str, path: str | None) -> str:
    """Looked for once: every call of a library asks. path: where `shutil.which` looks."""
    if wanted == "none":
        return ""
    if wanted:
        named = shutil.which(wanted, path=path)
        if not named:
            raise fail("E0720", f"TILEWRIGHT_CC names a compiler that is not there: '{wanted}'", hint="name one that is, or `none` to do without")
        return named
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name, path=path))), "")


Files = tuple[tuple[str, str], ...]
"""Further files beside a source, by name; those that end in `.c` are linked with it."""


def load_library(name: str, source: str, flags: tuple[str, ...] = (), files: Files = ()) -> ctypes.CDLL | None:
    """The compiled library, or None where there is no compiler; the caller then does the same work without it. files: no paths. $TILEWRIGHT_CFLAGS
    follows `flags`.

    Raises UserError E0710 with the compiler's first words when it refuses the source, E0712 where there is no room for the library.
    """
    path, own = compiler(), tuple(os.environ.get("TILEWRIGHT_CFLAGS", "").split())
    return _load(path, name, source, (*flags, *own), files) if path else None


def load_checker(name: str) -> ctypes.CDLL | None:
    """The library of templates/checker/NAME.c, read once: loops over millions of instructions ask for it again and again. None, and raises, as
    `load_library`."""
    return load_library(name, _checker_text(name))


@functools.cache
def _checker_text(name: str) -> str:
    return (CHECKER / f"{name}.c").read_text()


def link_program(files: Mapping[str, bytes], flags: Sequence[str]) -> bytes:
    """The executable of all C and assembler files among `files`, whose names have no path in them; it depends on their names and contents alone.

    Raises UserError E0711 without a compiler, E0710 with its first words where it refuses.
    """
    path, own = compiler(), os.environ.get("TILEWRIGHT_CFLAGS", "").split()
    if not path:
        raise fail("E0711", "there is no C compiler", hint="install gcc or clang, or set TILEWRIGHT_CC")
    with LISTENER.get()(), tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        sources = sorted(name for name in files if name.endswith((".c", ".s")))
        words = _compile([path, *flags, *own, *sources, "-lm", "-o", "program"], Path(folder))
        if words is not None:
            raise fail("E0710", f"{path} refused generated code", hint="name another compiler in TILEWRIGHT_CC", more=words.rstrip())
        return (Path(folder) / "program").read_bytes()


def load_known(name: str, digest: str, text: Callable[[], str], flags: tuple[str, ...] = ()) -> ctypes.CDLL | None:
    """As `load_library` of the text, which is written only where no library is known of this digest. digest: of all that the text follows from."""
    path, own = compiler(), tuple(os.environ.get("TILEWRIGHT_CFLAGS", "").split())
    if not path:
        return None
    if known := _known(path, name, digest, (*flags, *own)):
        return known
    library = load_library(name, text(), flags)
    if library is not None:
        _note(path, name, digest, (*flags, *own), library)
    return library


@functools.cache
def _known(path: str, name: str, digest: str, flags: tuple[str, ...]) -> ctypes.CDLL | None:
    """The library that was noted, if it is there as it was made."""
    try:
        noted = _notes(path, name, digest, flags).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    target = _folder() / noted
    return ctypes.CDLL(str(target)) if re.fullmatch(rf"{name}-[0-9a-f]{{32}}\.so", noted) and _whole(target) else None


@functools.cache
def _note(path: str, name: str, digest: str, flags: tuple[str, ...], library: ctypes.CDLL) -> None:
    """Notes which library a digest means; where there is no room for the note, the text is written anew each time."""
    with suppress(UserError):
        write_atomic(_notes(path, name, digest, flags), Path(library._name).name.encode())


def _notes(path: str, name: str, digest: str, flags: tuple[str, ...]) -> Path:
    return _folder() / f"{name}-{_key(path, digest, flags, ())}.known"


@functools.cache
def _load(path: str, name: str, source: str, flags: tuple[str, ...], files: Files) -> ctypes.CDLL:
    """The other files are compiled apart and kept: many regions call the same library."""
    folder = _folder()
    target = folder / f"{name}-{_key(path, source, flags, files)}.so"
    try:
        if not _whole(target):
            objects = [_object(path, file, flags, files, folder) for file, _ in files if file.endswith(".c")]
            _ensure(path, flags, (*files, (SOURCE, source)), (SOURCE, *map(str, objects), "-lm"), target)
        return ctypes.CDLL(str(target))
    except OSError as error:
        raise fail("E0712", f"no library can be kept in {target.parent}: {error.strerror or error}", hint=f"make room there, or {WITHOUT}") from None


def _object(path: str, name: str, flags: tuple[str, ...], files: Files, folder: Path) -> Path:
    """One of the files as an object file."""
    target = folder / f"object-{_key(path, name, flags, files)}.o"
    _ensure(path, flags, files, ("-c", name), target)
    return target


def _ensure(path: str, flags: tuple[str, ...], files: Files, last: tuple[str, ...], target: Path) -> None:
    """Compiles unless that was done before. last: words behind the flags, names of files among them. Raises OSError where the cache cannot be
    written after all."""
    if _whole(target):
        return
    import filelock  # takes as long as a small program's run, and is needed for a new library alone

    with filelock.FileLock(f"{target}.lock"):
        if not _whole(target):
            _build(path, flags, files, last, target)


def _whole(target: Path) -> bool:
    """Whether the library is there as it was made: loading a damaged one would end the process."""
    try:
        return _seal(target).read_text() == hashlib.sha256(target.read_bytes()).hexdigest()
    except (OSError, UnicodeDecodeError):
        return False


def _seal(target: Path) -> Path:
    """The file that keeps the hash of a library or an object."""
    return target.with_suffix(".sha256")


def _folder() -> Path:
    """The user's cache, or where that cannot be written a folder that lives as long as this process."""
    folder = Path(platformdirs.user_cache_dir("tilewright")) / "native"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _passing_folder()
    return folder if os.access(folder, os.W_OK) else _passing_folder()


@functools.cache
def _passing_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="tilewright-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _build(path: str, flags: tuple[str, ...], files: Files, last: tuple[str, ...], target: Path) -> None:
    with LISTENER.get()(), tempfile.TemporaryDirectory(dir=target.parent) as work:
        for name, content in files:
            (Path(work) / name).write_text(content)
        made, named = Path(work) / "made", {name: str(Path(work) / name) for name, _ in files}
        words = _compile([path, *FLAGS, *flags, *EXACT, "-o", str(made), *(named.get(word, word) for word in last)])
        if words is not None or not made.is_file():
            raise fail("E0710", f"{path} refused generated code", hint=WITHOUT, more=(words or "it made no library").rstrip())
        seal = Path(work) / "seal"
        seal.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
        made.replace(target)
        seal.replace(_seal(target))


def _compile(command: list[str], folder: Path | None = None) -> str | None:
    """The compiler's first words where it fails. folder: to run it in."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"no end after {PATIENCE} seconds"
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    return "\n".join(done.stderr.splitlines()[:5]) if done.returncode else None


def _key(path: str, source: str, flags: tuple[str, ...], files: Files) -> str:
    parts = (source, _version(path), *FLAGS, *flags, _cpu(), *(part for file in files for part in file))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", check=False, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return path
    return f"{path}\n{done.stdout}"


@functools.cache
def _cpu() -> str:
    """The processor, on which -march=native depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(next((line for line in lines if line.startswith(key)), "") for key in ("model name", "flags", "Features"))
