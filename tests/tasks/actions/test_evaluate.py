"""Inference of networks that can be built but that ONNX Runtime does not take as they are."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from toolchain import cli
from toolchain.graph.session import open_session, run_session
from toolchain.spec.errors import UserError


def _network() -> onnx.ModelProto:
    rng = np.random.default_rng(7)
    weights = [numpy_helper.from_array(rng.normal(size=(4, 3, 1, 1)).astype(np.float32), "w")]
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["y"], name="second")]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 8, 8]) for n, c in (("x", 3), ("y", 4)))
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _one_name(model: onnx.ModelProto) -> None:
    model.graph.node[1].name = model.graph.node[0].name


def _future(model: onnx.ModelProto) -> None:
    model.ir_version = 99


def _oldest(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 1
    model.ir_version = 3


@pytest.mark.parametrize("change", [_one_name, _future, _oldest])
def test_what_is_built_is_inferred(
    change: Callable[[onnx.ModelProto], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The float results are those of the same network in a form that ONNX Runtime takes, by the same names."""
    monkeypatch.chdir(tmp_path)
    good, changed = _network(), _network()
    change(changed)
    Path("net.onnx").write_bytes(changed.SerializeToString())
    with pytest.raises(UserError, match="E0910"):
        open_session(Path("net.onnx"))
    assert cli.main(["infer", "target=vta", "model=net.onnx"]) == 0, capfd.readouterr().err
    assert json.loads(Path("build/vta/net/infer/infer.json").read_text())["exact"]
    images = {"x": np.random.default_rng(3).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    found, wanted = (run_session(open_session(m), images) for m in (Path("build/vta/net/graph/00-import.onnx"), good.SerializeToString()))
    assert list(found) == list(wanted) == ["y"]
    assert np.array_equal(found["y"], wanted["y"])
