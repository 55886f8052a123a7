"""Claims on build folders, held from a build's first action to its end: builds of the same things share one, others wait.

A stage's own lock (locks.py) keeps two builds from writing at once; a claim keeps another model of the same name, or another choice of variables,
from taking the folder over between two stages of one build."""

import hashlib
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from toolchain.spec.errors import fail
from toolchain.tasks.stage import Job

NAME = ".lock"
PATIENCE = 0.5
"""Seconds of silent waiting."""


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Holds the folder, made if need be; the system lets go of it however the process ends. Raises UserError E0005."""
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / NAME)
        try:
            lock.acquire(timeout=PATIENCE)
        except filelock.Timeout:
            print(f"{folder}: another build is at work here; waiting for it", file=sys.stderr, flush=True)
            lock.acquire()
    except OSError as error:
        raise fail("E0005", f"cannot write into the folder: {error.strerror}", place=str(folder)) from None
    try:
        yield
    finally:
        lock.release()


GATE, OWNER, USER = ".claim.lock", ".owner", ".user-"
"""Names in a folder: held while a claim is made; a hash of what the folder is built from; one locked file for each build that uses it."""


def claims_of(job: Job) -> Iterator[tuple[Path, str]]:
    """Folders of a job, each with all that it is built from and that its name does not say."""
    files = [job.path, *(target.path for target in job.targets)] + ([job.deployment.path] if job.deployment else [])
    model, *machines = (str(path.resolve()) for path in files)
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
    """Removes what killed builds left: files that no process holds. Those of others appear only behind the gate, so none is taken before its lock."""
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
