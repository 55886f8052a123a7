"""`tilewright studio --serve`: the page of a build, made again whenever one of its files changes."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.live_page import Live, LiveServer
from toolchain.spec.errors import UserError, fail
from toolchain.spec.packages import require_package

if TYPE_CHECKING:
    from toolchain.tasks.plan import Plan

MOST_PORT = 65_535
LOOK_MS = 1000
"""The longest that a change goes unseen which the system did not tell of."""
SETTLE_MS = 200
"""Editors write a file in several steps."""
Stamps = dict[Path, tuple[int, int, int]]
"""Inode, bytes and time of the last change of the files that are there."""


@dataclass
class Watched:
    """Files that the last builds read, and folders with all files in them; of a build that failed early those that its mistakes name too. also:
    further files, which no stage reads."""

    also: Sequence[Path] = ()
    files: set[Path] = field(default_factory=set[Path])
    folders: set[Path] = field(default_factory=set[Path])

    def plan(self, plan: "Plan") -> None:
        """Watches the files that the steps of a plan read, in place of those before."""
        self.files, self.folders = set(self.also), set()
        for job, steps in zip(plan.jobs, plan.steps, strict=True):
            self.files |= {job.path, *(target.path for target in job.targets), *([job.deployment.path] if job.deployment else [])}
            self.folders |= {target.folder for target in job.targets}
            if job.variables.schedule:
                (self.folders if Path(job.variables.schedule).is_dir() else self.files).add(Path(job.variables.schedule))
            receipts = [receipt for step in steps.values() if (receipt := step.receipt())]
            self.files |= {Path(path) for receipt in receipts for path in receipt.read}

    def mistakes(self, error: UserError) -> None:
        """The files that diagnostics point into."""
        named = (Path(each.span.source.path if each.span else each.place) for each in error.diagnostics if each.span or each.place)
        self.files |= {path for path in named if path.is_file()}

    def stamps(self) -> Stamps:
        return dict(_stamped([*sorted(self.files), *(path for folder in sorted(self.folders) for path in _inside(folder))]))

    def places(self) -> list[Path]:
        """Folders in which a change would show; editors put a new file in the place of the old one, so files alone are not enough."""
        inner = {path for folder in sorted(self.folders) for path in _inside(folder) if path.is_dir()}
        around = {path.parent for path in self.files | self.folders}
        return sorted(path for path in around | self.folders | inner if path.is_dir())


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*")) if folder.is_dir() else []


def _stamped(paths: Iterable[Path]) -> Iterator[tuple[Path, tuple[int, int, int]]]:
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            continue
        if path.is_file():
            yield path, (state.st_ino, state.st_size, state.st_mtime_ns)


def changed(watched: Watched, before: Stamps) -> None:
    """Returns when a file is other than before, or there is another file."""
    from watchfiles import watch

    if watched.stamps() != before:
        return
    events = watch(*watched.places(), watch_filter=None, recursive=False, debounce=SETTLE_MS, rust_timeout=LOOK_MS, yield_on_timeout=True)
    next(found for found in (watched.stamps() != before for _ in events) if found)


def serve(port: int, build: Callable[["Plan"], str], make: Callable[[], "Plan"], also: Sequence[Path] = ()) -> None:
    """Builds, serves and builds again until it is interrupted. port: 0 for a free one. build: the page of a plan's one build. make: the plan, from
    the files as they are. also: further files that the page is made of.

    Raises UserError E0002 for a port that is none, E0005 for one that is taken, E0009 without the package `watchfiles`, and a mistake at the start
    that no file can mend.
    """
    require_package("watching files", "watchfiles", "serve")
    if not 0 <= port <= MOST_PORT:
        raise fail("E0002", f"--port is {port}, it must be from 0 to {MOST_PORT}")
    live, watched = Live(), Watched(also)
    with LiveServer(live, port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            print(server.url, flush=True)
            while True:
                changed(watched, _built(live, watched, build, make))
        finally:
            live.close()
            server.shutdown()


def _built(live: Live, watched: Watched, build: Callable[["Plan"], str], make: Callable[[], "Plan"]) -> Stamps:
    """Shows the new page, or the mistake over the last good one. The state of the files before it began: what changes meanwhile counts as new."""
    live.show(busy=True, mistake=live.state.mistake)
    before = watched.stamps()
    try:
        plan = make()
        watched.plan(plan)
        before = watched.stamps()
        page = build(plan)
        known = {*before, *watched.stamps()}
        watched.plan(plan)  # receipts name files that were not known before
        before |= {path: stamp for path, stamp in watched.stamps().items() if path not in known}
        live.show(page)
    except UserError as error:
        watched.mistakes(error)
        if not watched.files:
            raise
        before |= {path: stamp for path, stamp in watched.stamps().items() if path not in before}
        print(error, file=sys.stderr, flush=True)
        live.show(mistake=str(error))
    return {path: stamp for path, stamp in before.items() if path in watched.files or any(path.is_relative_to(each) for each in watched.folders)}
