"""Who measures points: this process, or Dask's workers in other processes and on other hosts."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from toolchain.explore.measure import Outcome, measure
from toolchain.explore.study import Point, Study
from toolchain.explore.trials import Trial
from toolchain.spec.errors import fail

AHEAD = 2
"""Points that wait for each worker, so that none is idle."""
DIED = "every worker that was given this point died"
"""The refusal of a point that Dask gave to several workers in turn."""
Measured = Iterator[tuple[Trial, Outcome]]
Workers = Callable[[Iterable[Trial]], Measured]


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
    try:
        cluster = None if scheduler else distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None)
        client = distributed.Client(scheduler or cluster, timeout="20s")
    except (OSError, TimeoutError, ValueError) as error:
        raise fail("E1503", f"the scheduler '{scheduler[:80]}' does not answer: {type(error).__name__}", hint="--workers N needs none") from None
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
