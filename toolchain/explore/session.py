"""Measures the points of a study until its budget is spent, and says how far it is."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.explore.measure import Outcome
from toolchain.explore.study import OBJECTIVES, Point, Study, point_text
from toolchain.explore.trials import Trials, open_trials, quiet
from toolchain.explore.workers import Workers, workers
from toolchain.report.tables import scaled

Say = Callable[[str], None]


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
