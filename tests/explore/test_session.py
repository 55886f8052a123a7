"""A session from its first point to its last, without a build. Points on Dask's workers are those of one process."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.explore.studies import STUDY, found, outcome
from toolchain.explore import session
from toolchain.explore import session as module
from toolchain.explore.measure import Outcome
from toolchain.explore.session import explore, figure_text
from toolchain.explore.session import workers as workers_workers
from toolchain.explore.study import Axis, Point, Study
from toolchain.explore.trials import Trial
from toolchain.spec.errors import UserError

REFUSED = Study("vta", ("digits",), (Axis("LOG_BLOCK", ("2", "3")), Axis("LOG_BUS", ("3", "4"))))
"""Points that end quickly."""


pytest.importorskip("optuna")


def test_all_points_are_measured_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def instead(_study: Study, point: Point, _root: Path) -> object:
        return outcome(point)

    monkeypatch.setattr(session, "measure", instead)
    told: list[str] = []
    assert explore(STUDY, tmp_path / "study", tmp_path, told.append) == found()
    assert len(told) == 6
    assert told[0].startswith("point 1 of 6: SIZE=2 BUS=8, 0.5 ms, 10 mm2, about ")
    assert any("E0106 too small" in text for text in told)
    assert told[-1].endswith("about 0 s left")
    assert explore(STUDY, tmp_path / "study", tmp_path, told.append) == found()
    assert len(told) == 6


@pytest.mark.parametrize(
    ("name", "value", "text"), [("ms", 0.123456, "0.1235 ms"), ("cycles", 1234.4, "1,234"), ("bytes", 2048.0, "2.05 kB"), ("area", None, "-")]
)
def test_figures_have_units(name: str, value: float | None, text: str) -> None:
    assert figure_text(name, value) == text


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with workers_workers(STUDY, tmp_path, 1, ""):
        pass
    with pytest.raises(UserError, match="E1503 several workers need the package 'distributed'"), workers_workers(STUDY, tmp_path, 2, ""):
        pass


class KilledWorkerError(Exception):
    """As Dask's KilledWorker."""


@dataclass
class Future:
    """A point that was given to a worker, and its end."""

    point: Point
    end: Outcome | Exception
    status: str = field(init=False)

    def __post_init__(self) -> None:
        self.status = "error" if isinstance(self.end, Exception) else "finished"

    def __hash__(self) -> int:
        return id(self)

    def exception(self) -> Exception | None:
        return self.end if isinstance(self.end, Exception) else None

    def result(self) -> Outcome:
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


class Queue(list[Future]):
    """Dask's `as_completed`: futures may be added while it is read."""

    add = list.append

    def __iter__(self) -> Iterator[Future]:
        while self:
            yield self.pop(0)


@dataclass
class Client:
    """ends: of points that do not end as `outcome` says."""

    ends: dict[Point, Outcome | Exception]

    def submit(self, _measure: object, _study: Study, point: Point, _root: str, pure: bool) -> Future:
        assert not pure
        return Future(point, self.ends.get(point, outcome(point)))


def far(ends: dict[Point, Outcome | Exception], monkeypatch: pytest.MonkeyPatch) -> dict[Point, Outcome]:
    library = SimpleNamespace(as_completed=Queue, KilledWorker=KilledWorkerError)
    monkeypatch.setattr(module, "import_module", lambda _: library)
    trials = [Trial(STUDY.point(number), None) for number in range(STUDY.size)]  # type: ignore[arg-type]
    return {trial.point: found for trial, found in module._far(STUDY, Path("/w"), Client(ends), 2, trials)}


def test_a_point_whose_workers_die_is_refused_and_no_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert far({("2", "8"): KilledWorkerError()}, monkeypatch) == found() | {("2", "8"): Outcome(refused=module.DIED)}


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        far({("2", "8"): ZeroDivisionError()}, monkeypatch)


@pytest.mark.skipif(not os.environ.get("TILEWRIGHT_SLOW"), reason="a cluster takes half a minute to start on a busy machine")
@pytest.mark.filterwarnings("ignore")
def test_two_workers_find_the_same_as_one_process(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    pytest.importorskip("optuna")
    one, two = (explore(REFUSED, tmp_path / str(count), tmp_path / "build", lambda _: None, count) for count in (1, 2))
    assert one == two
    assert len(one) == 4
    assert all(each.refused for each in one.values())
