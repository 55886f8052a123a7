"""A session from its first point to its last, without a build."""

from pathlib import Path

import pytest

from tests.explore.studies import STUDY, found, outcome
from toolchain.explore import workers
from toolchain.explore.session import explore, figure_text
from toolchain.explore.study import Point, Study

pytest.importorskip("optuna")


def test_all_points_are_measured_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def instead(_study: Study, point: Point, _root: Path) -> object:
        return outcome(point)

    monkeypatch.setattr(workers, "measure", instead)
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
