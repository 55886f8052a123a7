"""`tilewright model check`: models of layers, ONNX files with open dimensions, and faults."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from toolchain.cli import main


def test_a_model_without_errors_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", ends[:1], ends[1:])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert main(["model", "check", str(path), "--dim", "n:2"]) == 0
    assert main(["model", "check", "mobilenet_v2"]) == 0
    assert capsys.readouterr().out == "net: 1 nodes, x 2x3: no errors\nmobilenet_v2: 153 nodes, image 1x3x224x224: no errors\n"


def test_errors_of_the_file_and_of_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.yaml").write_text("model: {name: net}\nbogus: 1\n")
    (tmp_path / "net.onnx").write_bytes(b"no model")
    assert main(["model", "check", str(tmp_path / "net.yaml")]) == 1
    assert "net.yaml:2:1: E0108 unknown key 'bogus'" in capsys.readouterr().err
    assert main(["model", "check", str(tmp_path / "net.onnx")]) == 1
    assert "net.onnx: E0807" in capsys.readouterr().err
