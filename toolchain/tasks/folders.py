"""Build folders: claims on them, held from a build's first action to its end, and their removal.

Builds of the same things share a folder, others wait. A stage's own lock (`locked`) keeps two builds from writing at once; a claim keeps another
model of the same name, or another choice of variables, from taking the folder over between two stages of one build. Removal leaves foreign files.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from toolchain.spec.errors import fail
from toolchain.tasks.plan import Plan
from toolchain.tasks.stage import Job, Step

NAME = ".lock"
STUDIO, PAIR = "studio.html", "beside.html"
"""The page of a whole build, and of it beside another one, which no stage writes."""
PATIENCE = 0.5
"""Seconds of silent waiting."""


@contextmanager
def locked(folder: Path, reading: bool = False) -> Generator[None]:
    """Holds the folder, made if need be; the system lets go of it however the process ends. reading: together with others that read, while none
    writes. Raises UserError E0005."""
    try:
        file = _held(folder, fcntl.LOCK_SH if reading else fcntl.LOCK_EX)
    except OSError as error:
        raise fail("E0005", f"cannot write into the folder: {error.strerror}", place=str(folder)) from None
    with file:
        yield


def _held(folder: Path, way: int) -> BinaryIO:
    """The folder's lock file, locked until it is closed; one that was removed while we waited for it is no lock any more."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / NAME).open("ab")
        if not _taken(file, way):
            print(f"{folder}: another build is at work here; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(file, way)
        with suppress(FileNotFoundError):
            if os.fstat(file.fileno()).st_ino == (folder / NAME).stat().st_ino:
                return file
        file.close()


def _taken(file: BinaryIO, way: int) -> bool:
    """Whether it can be had within PATIENCE."""
    end = time.monotonic() + PATIENCE
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(file, way | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(PATIENCE / 20)


GATE, OWNER, USER = ".claim.lock", ".owner", ".user-"
"""Names in a folder: held while a claim is made; a hash of the folder's inputs; one locked file for each build that uses it."""


def claims_of(job: Job) -> Iterator[tuple[Path, str]]:
    """Folders of a job, each with all that it is built from and that its name does not say."""
    files = [job.path, *(target.path for target in job.targets)] + ([job.deployment.path] if job.deployment else [])
    model, *machines = (str(path.resolve()) for path in files)
    if job.variables.lengths:
        yield job.folder, repr((model, *machines))
        return
    yield job.home("onnx"), model
    yield job.home("calibration"), model
    for stage in ("graph", "bundle"):
        yield job.home(stage), repr((model, *machines, job.variables.fallback, job.variables.html))


@dataclass
class Claims:
    """The claims of one build; used in a `with` block they end with it, else with the process."""

    held: dict[Path, ExitStack] = field(default_factory=dict[Path, ExitStack])

    def hold(self, job: Job) -> None:
        """Claims the folders of a job, once. Raises UserError E0005."""
        for folder, made_of in claims_of(job):
            if folder not in self.held:
                self.held[folder] = _claim(folder, hashlib.sha256(made_of.encode()).hexdigest())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        for stack in self.held.values():
            stack.close()
        self.held.clear()


def _claim(folder: Path, owner: str) -> ExitStack:
    """The folder as one of its users, which closing the answer ends."""
    import filelock

    held = ExitStack()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / GATE):
            _sweep(folder)
            if _owner(folder) != owner:
                _outwait(folder)
                (folder / OWNER).write_text(owner)
            path = folder / f"{USER}{os.getpid()}-{os.urandom(4).hex()}.lock"
            lock = filelock.FileLock(path)
            lock.acquire()
        held.callback(path.unlink, missing_ok=True)
        held.callback(lock.release)
    except OSError as error:
        raise fail("E0005", f"cannot write into the folder: {error.strerror}", place=str(folder)) from None
    return held


def _sweep(folder: Path) -> None:
    """Removes files of killed builds, which no process holds. Those of others appear only behind the gate, so none is taken before its lock."""
    import filelock

    for path in sorted(folder.glob(f"{USER}*")):
        with suppress(filelock.Timeout), filelock.FileLock(path, timeout=0):
            path.unlink(missing_ok=True)


def _owner(folder: Path) -> str:
    try:
        return (folder / OWNER).read_text()
    except (OSError, ValueError):
        return ""


def _outwait(folder: Path) -> None:
    """Waits for every build that uses the folder; the system lets go of a lock however its process ends."""
    import filelock

    for path in sorted(folder.glob(f"{USER}*")):
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=PATIENCE)
        except filelock.Timeout:
            print(f"{folder}: a build of something else is at work here; waiting for it", file=sys.stderr, flush=True)
            lock.acquire()
        lock.release()
        path.unlink(missing_ok=True)


def clean_plan(plan: Plan, dry: bool = False) -> list[Path]:
    """Removes the folders and receipts of every stage; with `dry` only says which. Raises UserError E0005."""
    return clean_steps(plan.every, dry)


def clean_steps(steps: Iterable[Step], dry: bool = False) -> list[Path]:
    """The folders and receipts that went, or would go. Raises UserError E0005 where the system refuses."""
    homes: dict[Path, list[Step]] = {}
    for step in steps:
        homes.setdefault(step.home, []).append(step)
    return [path for home, inside in homes.items() if home.is_dir() for path in _clean(home, inside, dry)]


def forget_plan(plan: Plan) -> list[Path]:
    """Takes away the receipts of every stage, so that the next build makes all of it again; the folders that had one. Raises UserError E0005."""
    found = [step for step in plan.every if step.receipt_path.exists()]
    try:
        for step in found:
            with locked(step.home):
                step.receipt_path.unlink(missing_ok=True)
    except OSError as error:
        raise fail("E0005", f"the system refused: {error.strerror}", place=str(error.filename)) from None
    return [step.folder for step in found]


def _clean(home: Path, steps: Iterable[Step], dry: bool) -> list[Path]:
    """Everything of the steps in one folder, the page that shows them, and the folder where nothing else is left in it."""
    parts = [path for step in steps for path in (step.folder, step.receipt_path)]
    found = [path for path in (*parts, home / STUDIO, home / PAIR) if path.exists()]
    if dry:
        return found
    try:
        with locked(home):
            for path in found:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        _fold(home)
    except OSError as error:
        raise fail("E0005", f"the system refused: {error.strerror}", place=str(error.filename or home)) from None
    return found


def _fold(home: Path) -> None:
    """Removes a folder that holds nothing but its locks, and the one around it where that is empty then."""
    found = [*home.iterdir()]
    if all(path.name in (NAME, GATE, OWNER) or path.name.startswith(USER) for path in found):
        for path in found:
            path.unlink(missing_ok=True)
        home.rmdir()
        if not any(home.parent.iterdir()):
            home.parent.rmdir()
