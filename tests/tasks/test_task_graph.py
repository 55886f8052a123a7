"""What a user reads of a network whose integers are of no use: exact, and warned of."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from toolchain import cli

HOPELESS = """\
model: {name: hopeless, summary: two scales in one tensor}
onnx: hopeless.onnx
inputs: {x: [1, 16, 4, 4]}
accuracy: {loss: 1}
"""


@pytest.fixture
def hopeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two operands, one 1e5 times the other, stand in one tensor and share its scale; the result is made of the small one.

    Any loss is accepted, else the host has it; beside it recorded samples, for made-up ones say too little for a warning.
    """
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    large, small = (rng.normal(0, size, (16, 16, 1, 1)).astype(np.float32) for size in (100, 0.001))
    last = np.concatenate([np.zeros((8, 16, 1, 1)), rng.normal(0, 1000, (8, 16, 1, 1))], 1).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "large"], ["a"], name="first"),
        helper.make_node("Conv", ["x", "small"], ["b"], name="second"),
        helper.make_node("Concat", ["a", "b"], ["c"], name="both", axis=1),
        helper.make_node("Conv", ["c", "last"], ["y"], name="third"),
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in (("large", large), ("small", small), ("last", last))]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, 4, 4]) for name, channels in (("x", 16), ("y", 8)))
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "hopeless.onnx")
    np.savez("seen.npz", x=rng.normal(0, 1, (8, 16, 4, 4)).astype(np.float32))
    Path("hopeless.yaml").write_text(HOPELESS)
    return "model=hopeless.yaml"


@pytest.mark.parametrize("command", ["infer", "verify", "report"])
def test_a_hopeless_quantisation_is_no_secret(command: str, hopeless: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "target=vta", "place=all", "calibration=seen.npz", hopeless]) == 0
    told = capfd.readouterr().out
    assert "outputs 0.0 dB, worst 0.0 dB (" in told
    assert "output y is far from the float network, 0.0 dB" in told
    assert "warning" in told
