"""What info says of a stage before, after and between builds."""

from pathlib import Path

import pytest

from tests.tasks.builds import build
from toolchain.tasks.info import info_text, state_text
from toolchain.tasks.plan import make_plan

GIVEN = {"target": "vta", "model": "digits"}


def test_every_stage_with_what_it_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fresh = info_text(make_plan(GIVEN))
    assert fresh.startswith("onnx digits: to be made: first time\n")
    assert "\nbundle digits for vta: to be made after onnx, calibration, graph, schedule\n" in fresh
    assert build(tmp_path).returncode == 0
    states = {name: state_text(step) for name, step in make_plan(GIVEN).steps[0].items()}
    current = [name for name, state in states.items() if state == "up to date"]
    assert current == ["onnx", "calibration", "graph", "accuracy", "schedule", "bundle", "summary"]
    text = info_text(make_plan(GIVEN))
    assert "digits/digits.npz" in text
    assert "build/vta/digits/bundle, 3 files" in text
    others = {name: state_text(step) for name, step in make_plan(GIVEN | {"fallback": "no"}).steps[0].items()}
    assert others["graph"] == "to be made: option fallback"
    assert others["bundle"] == "to be made after graph"
