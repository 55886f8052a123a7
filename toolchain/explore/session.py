"""Measures the points of a study until its budget is spent, here or on Dask's workers, and says how far it is."""

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from toolchain.explore.measure import Outcome, measure
from toolchain.explore.study import OBJECTIVES, Point, Study, point_text
from toolchain.explore.trials import Trial, Trials, open_trials, quiet
from toolchain.report.tables import scaled
from toolchain.spec.errors import fail

AHEAD = 2
"""Points that wait for each worker, so that none is idle."""
DIED = "every worker that was given this point died"
"""The refusal of a point that Dask gave to several workers in turn."""
QUIET: Mapping[str, object] = MappingProxyType({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"})
"""Settings of Dask, which workers inherit: it would look at each one's stack a hundred times a second, and wake fifty times to see that it can."""
Measured = Iterator[tuple[Trial, Outcome]]
Workers = Callable[[Iterable[Trial]], Measured]

Say = Callable[[str], None]


def here(study: Study, root: Path, trials: Iterable[Trial]) -> Measured:
    """One after the other in this process."""
    for trial in trials:
        yield trial, measure(study, trial.point, root)


@contextmanager
def workers(study: Study, root: Path, count: int, scheduler: str) -> Generator[Workers]:
    """count: of local processes, 1 for this one alone. scheduler: address of a cluster whose hosts share the folder of builds; empty for none.

    Raises UserError E1503 where Dask is needed and not installed, or the scheduler does not answer.
    """
    if not scheduler and count == 1:
        yield partial(here, study, root)
        return
    distributed = _library()
    with import_module("dask").config.set(QUIET):
        try:
            cluster = (
                None
                if scheduler
                else distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR)
            )
            client = distributed.Client(scheduler or cluster, timeout="20s")
        except (OSError, TimeoutError, ValueError) as error:
            text = f"the scheduler '{scheduler[:80]}' does not answer: {type(error).__name__}"
            raise fail("E1503", text, hint="--workers N needs none") from None
        try:
            yield partial(_far, study, root, client, AHEAD * (count if not scheduler else max(len(client.scheduler_info()["workers"]), 1)))
        finally:
            client.close()
            if cluster is not None:
                cluster.close()


def _library() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        hint = "pip install 'tilewright[explore]', or leave --workers and --scheduler out"
        raise fail("E1503", "several workers need the package 'distributed', which is not installed", hint=hint) from None


def _far(study: Study, root: Path, client: Any, most: int, trials: Iterable[Trial]) -> Measured:
    """Keeps `most` points under way. A worker that dies has its points measured by another one; a mistake of ours is raised here."""
    distributed = _library()
    waiting = iter(trials)
    known: dict[Any, Trial] = {}
    done = distributed.as_completed()

    def start() -> None:
        trial = next(waiting, None)
        if trial is not None:
            future = client.submit(_measure, study, trial.point, str(root), pure=False)
            known[future] = trial
            done.add(future)

    for _ in range(most):
        start()
    for future in done:
        died = future.status == "error" and isinstance(future.exception(), distributed.KilledWorker)
        yield known.pop(future), Outcome(refused=DIED) if died else future.result()
        start()


def _measure(study: Study, point: Point, root: str) -> Outcome:
    return measure(study, point, Path(root))


def explore(study: Study, folder: Path, root: Path, say: Say, count: int = 1, scheduler: str = "") -> Mapping[Point, Outcome]:
    """All outcomes of the study, those of earlier runs and of other processes too. folder: of the study. root: of all builds. count: of processes.

    Raises UserError E1502, E1503. A point that cannot be built raises nothing.
    """
    trials = open_trials(study, folder)
    progress = _Progress(study, len(trials.finished()))
    with quiet(), workers(study, root, count, scheduler) as run:
        while _measure_some(trials, run, lambda point, outcome: say(progress.told(point, outcome))):
            pass
    return trials.finished()


def _measure_some(trials: Trials, run: Workers, tell: Callable[[Point, Outcome], None]) -> int:
    """Measures what the search asks for next; how many points these were."""
    count = 0
    for trial, outcome in run(trials.next()):
        count += 1
        trials.tell(trial, outcome)
        tell(trial.point, outcome)
    return count


@dataclass
class _Progress:
    """done: points measured before this session and in it."""

    study: Study
    done: int
    began: float = field(default_factory=time.perf_counter)
    mine: int = 0

    def told(self, point: Point, outcome: Outcome) -> str:
        """`point 3 of 12: SIZE=4, 7.2 ms, about 20 s left`."""
        self.done, self.mine = self.done + 1, self.mine + 1
        total = max(min(self.study.budget, self.study.size), self.done)
        left = (time.perf_counter() - self.began) / self.mine * (total - self.done)
        text = outcome.refused or ", ".join(figure_text(name, outcome.figures.get(name)) for name in self.study.objectives)
        return f"point {self.done} of {total}: {point_text(self.study, point)}, {text}, about {left:.0f} s left"


def figure_text(name: str, value: float | None) -> str:
    """With its unit; a dash where it is not known."""
    unit = OBJECTIVES[name].unit
    if value is None:
        return "-"
    return scaled(value, "B") if unit == "B" else f"{value:.4g} {unit}" if unit else f"{value:,.0f}"
