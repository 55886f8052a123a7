"""Pipelines around a network, as skl2onnx writes them: the import computes what ONNX Runtime does with the file."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import normal, run
from toolchain.graph.importing.load import load_graph
from toolchain.graph.running.session import open_session
from toolchain.passes.truth import Given

n = helper.make_node
ML = "ai.onnx.ml"


def pipeline(folder: Path, kind: int, factors: int) -> Path:
    """A Scaler, a layer, and a classifier's end."""
    rng = np.random.default_rng(0)
    nodes = [
        n("Scaler", ["x"], ["a"], "scaler", domain=ML, offset=rng.normal(size=factors).tolist(), scale=rng.normal(size=factors).tolist()),
        n("MatMul", ["a", "w"], ["b"]),
        n("Softmax", ["b"], ["c"]),
        n("ZipMap", ["c"], ["p"], "zip", domain=ML, classlabels_int64s=[7, 3, 5]),
    ]
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))
    weights = [numpy_helper.from_array(rng.normal(size=(4, 3)).astype(np.float32), "w")]
    graph = helper.make_graph(nodes, "pipeline", [helper.make_tensor_value_info("x", kind, [2, 4])], [helper.make_value_info("p", maps)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(ML, 1)], ir_version=8), folder / "p.onnx")
    return folder / "p.onnx"


@pytest.mark.parametrize("factors", [1, 4])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.DOUBLE])
def test_a_pipeline_computes_what_the_file_does(kind: int, factors: int, tmp_path: Path) -> None:
    path = pipeline(tmp_path, kind, factors)
    x = {"x": (normal(1, 2, 4) * 9).astype(helper.tensor_dtype_to_np_dtype(kind))}
    model = load_graph(path)
    wanted, found = Given(open_session(path, optimise=False)).run(x)["p"], run(model, x)["p"]
    assert wanted.shape == found.shape == (2, 3)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    kept = {node.op_type for node in model.graph if node.domain == ML}
    assert kept == ({"Scaler"} if kind == TensorProto.DOUBLE else set())


def test_a_tensor_of_unknown_rank_is_no_scalar(tmp_path: Path) -> None:
    """ONNX's inference knows no shape behind a Scaler, and ONNX Runtime shows such a tensor without axes."""
    model = load_graph(pipeline(tmp_path, TensorProto.DOUBLE, 4))
    (scaler,) = [node for node in model.graph if node.op_type == "Scaler"]
    assert scaler.outputs[0].shape is None
    assert scaler.outputs[0].dtype == ir.DataType.FLOAT
