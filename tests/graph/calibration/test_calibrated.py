"""Where ranges come from is kept in the integer model's file, whatever is built from."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from toolchain.graph.calibration.calibrated import calibration_kind, calibration_text
from toolchain.graph.store import read_stage
from toolchain.tasks.actions.paths import graph_file
from toolchain.tasks.plan import make_plan
from toolchain.tasks.work import perform

NETWORK = """\
model: {{name: tiny, summary: for a test, sources: [here]}}
inputs: {{image: [1, 3, 8, 8]}}
layers:
  - conv: {{out: 8, kernel: 3, act: relu}}
{calibration}
"""


def test_other_models_do_not_say() -> None:
    model = ir.Model(ir.Graph([], [], nodes=[], name="g"), ir_version=8)
    assert calibration_kind(model) == ""
    assert calibration_text("") == "not at all, as nothing is computed in integers"


def test_a_quantised_model_without_samples_is_told_what_to_do() -> None:
    assert "quantised anew" in calibration_text("declared")
    assert "calibration=FILE" in calibration_text("declared")


@pytest.mark.parametrize(("calibration", "kind"), [("", "made-up"), ("calibration: {file: seen.npz, array: a}", "recorded")])
def test_a_stage_says_how_it_was_calibrated(calibration: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(NETWORK.format(calibration=calibration))
    np.savez(tmp_path / "seen.npz", a=np.ones((2, 3, 8, 8), np.float32))
    plan = make_plan({"target": "vta", "model": str(tmp_path / "tiny.yaml")}, tmp_path / "build")
    for name in ("onnx", "calibration", "graph"):
        perform(plan.steps[0][name], lambda _: None)
    assert calibration_kind(read_stage(graph_file(plan.jobs[0]))) == kind
    assert ("made-up" in calibration_text(kind)) == (kind == "made-up")
