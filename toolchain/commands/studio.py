"""`tilewright studio MACHINE MODEL`: a build as a whole on one page; with `--serve`, made again whenever one of its files changes."""

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.commands.live_page import Live, LiveServer
from toolchain.commands.machine import sign
from toolchain.commands.tasks import given_of
from toolchain.spec.errors import UserError, fail
from toolchain.spec.packages import require_package
from toolchain.tasks.folders import PAIR
from toolchain.tasks.plan import make_plan

if TYPE_CHECKING:
    from toolchain.tasks.plan import Plan
    from toolchain.tasks.stage import Job, Step

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


STAGES = ("summary", "infer", "verify")
"""Stages whose results the page shows."""


def studio(arguments: argparse.Namespace) -> None:
    """Builds and verifies where that is not up to date, writes the page of each build, or of two, and prints its path; with --serve again and again.

    Raises as `tilewright verify`, and UserError E0002 for words that are no variables, or one page for several builds, E1128 for a profile that is
    none of the build's; with --serve as `serve`.
    """
    variables = given_of(arguments.variables)
    other = {**variables, **given_of(arguments.beside)} if arguments.beside else None
    if arguments.profile and other is not None:
        raise fail("E0002", "--profile is of one build, and --beside shows two")
    build = partial(_page_of_all, output=arguments.output, pair=other is not None, profile=arguments.profile)
    make = partial(_plan, variables, other, arguments.serve or arguments.output or arguments.profile)
    if arguments.serve:
        serve(arguments.port, build, make, [Path(arguments.profile)] if arguments.profile else [])
    elif arguments.port:
        raise fail("E0002", "--port is for --serve")
    else:
        build(make())


def _plan(variables: Mapping[str, str], other: Mapping[str, str] | None, alone: object) -> "Plan":
    """other: the variables of a build beside it. alone: whether there is room for one page. Raises UserError E0002 and all of make_plan."""
    plan = make_plan(variables)
    if (alone or other) and len(plan.jobs) > 1:
        raise fail("E0002", f"{len(plan.jobs)} builds cannot go into one page", hint="name one machine and one model")
    if other is None:
        return plan
    beside = make_plan(other)
    if len(beside.jobs) > 1 or {job.folder for job in plan.jobs} & {job.folder for job in beside.jobs}:
        raise fail("E0002", "--beside is no other build", hint="for example --beside params=NAME:VALUE")
    return replace(plan, jobs=plan.jobs + beside.jobs, steps=plan.steps + beside.steps)


def _page_of_all(plan: "Plan", output: str | None, pair: bool, profile: str | None) -> str:
    """The last page. Every page is written and its path printed, of a pair that of both alone."""
    from toolchain.spec.files import write_atomic
    from toolchain.tasks.actions.paths import studio_file

    with sign("studio") as say:
        made = ((job, _built_page(job, steps, say, profile)) for job, steps in zip(plan.jobs, plan.steps, strict=True))
        page = ""
        for job, page in [(plan.jobs[0], _pair(list(made)))] if pair else made:
            path = Path(output) if output else studio_file(job).with_name(PAIR) if pair else studio_file(job)
            write_atomic(path, page.encode(errors="replace"))
            print(path, flush=True)
        return page


def _built_page(job: "Job", steps: Mapping[str, "Step"], say: Callable[[str], None], profile: str | None) -> str:
    from toolchain.tasks.work import fulfil

    for name in STAGES:
        fulfil(steps[name], say)
    say(f"drawing {job.model}")
    return page_of(job, profile)


def _pair(built: Sequence[tuple["Job", str]]) -> str:
    """Both pages, and the comparison of their folders."""
    from toolchain.commands.compare import read_side
    from toolchain.report.comparison import Comparison, comparison_page
    from toolchain.report.studio_page import pair_page

    names = [str(job.folder) for job, _ in built]
    return pair_page(names, [page for _, page in built], comparison_page(Comparison(tuple(map(read_side, names)))))


def page_of(job: "Job", profile: str | None = None) -> str:
    """The page of a build that is verified. profile: the file of times that a device measured.

    Raises UserError E1206 for results that are damaged, E0001, E0005 and E1128 for the profile.
    """
    from toolchain.accuracy.closeness import read_inference
    from toolchain.report.measured_times import profile_file
    from toolchain.report.studio_page import studio_page
    from toolchain.report.studio_regions import measured_regions, studio_regions
    from toolchain.report.summary import summarise_model
    from toolchain.tasks.actions.paths import infer_file, read_result, verdict_file
    from toolchain.tasks.actions.report import built_of
    from toolchain.verify.verdict import read_verified

    built, stages, told = built_of(job)
    inferred = read_result(infer_file(job), read_inference)
    verified = read_result(verdict_file(job).with_suffix(".json"), read_verified)
    summary = summarise_model(built, stages, replace(told, inferred=inferred, verified=verified))
    regions = list(studio_regions(built, _records(job)))
    return studio_page(built, summary, measured_regions(regions, profile_file(Path(profile))) if profile else regions, verified)


def _records(job: "Job") -> dict[str, Mapping[str, Any]]:
    """Records of the searches by region."""
    from toolchain.tasks.actions.paths import read_result, search_file

    ending = search_file(job, "").name
    files = sorted(search_file(job, "").parent.glob(f"*{ending}"))
    return {path.name.removesuffix(ending): read_result(path, json.loads) for path in files}
