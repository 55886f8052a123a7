"""Answers of the tasks: a network whose integers are of no use is exact, and warned of; inputs without elements cross every task."""

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


def joined(path: Path, shape: list[int], axis: int, rows: int) -> None:
    """Two inputs, `a` with 16 numbers in each of 2 rows and `x` of `shape`, which joins the 8 sums of each row along `axis`."""
    nodes = [helper.make_node("Gemm", ["a", "w"], ["g"], name="product"), helper.make_node("Concat", ["g", "x"], ["y"], name="join", axis=axis)]
    weights = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    told = {"a": [2, 16], "x": shape, "y": [rows, 8]}
    a, x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in told.items())
    graph = helper.make_graph(nodes, "g", [a, x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("target", ["vta", "dpuv3", "clib32"])
@pytest.mark.parametrize(("shape", "axis"), [([2, 0], 1), ([0, 8], 0)])
def test_an_input_without_elements_crosses_every_task(
    target: str, shape: list[int], axis: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The rest of the network is on the machine all the same. The very file says 0, which the user has to confirm."""
    monkeypatch.chdir(tmp_path)
    joined(Path("net.onnx"), shape, axis, 2)
    words = [f"target={target}", "model=net.onnx", "place=all"]
    assert cli.main(["build", *words]) == 1
    assert f"or x.{shape.index(0)}:0 where it has no elements" in capfd.readouterr().err
    told: dict[str, str] = {}
    for command in ("build", "infer", "verify", "explain"):
        assert cli.main([command, *words, f"dim=x.{shape.index(0)}:0"]) == 0
        told[command] = capfd.readouterr().out
    assert "DIFFERENT" not in told["infer"]
    assert "all 64 elements" in told["verify"]
    assert "region0: " in told["verify"]
    assert "no elements" in told["explain"]


@pytest.mark.parametrize("target", ["vta", "clib32"])
def test_a_network_of_no_elements_at_all_stays_on_the_host(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    joined(Path("net.onnx"), [2, 0], 1, 2)
    model = onnx.load("net.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 0
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 0
    onnx.save(model, "net.onnx")
    for command in ("build", "infer", "verify", "report", "explain"):
        assert cli.main([command, f"target={target}", "model=net.onnx", "place=all", "dim=a.0:0,x.0:0,x.1:0"]) == 0
        told = capfd.readouterr().out
        assert "DIFFERENT" not in told
        assert "all 0 elements" in told or command != "verify"
