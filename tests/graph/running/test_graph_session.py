"""Tensors inside a graph are shown without changing it."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from tests.graph.imported import imported, normal
from tests.graph.onnx_builder import model, n
from toolchain.graph.files.store import Store
from toolchain.graph.files.weights import INLINE_BYTES
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import run_session


def test_watched_tensors_are_further_outputs(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Relu", ["x"], ["a"]), n("Neg", ["a"], ["b"]), n("Abs", ["b"], ["y"])])
    before = ir.to_proto(graph).SerializeToString(deterministic=True)
    x, (a, b, y) = normal(0, 1, 3, 4, 4), (node.outputs[0] for node in graph.graph)
    found = run_session(open_model(graph, [b, a, b, y, graph.graph.inputs[0]]), {"x": x})
    assert list(found) == ["y", "b", "a"]
    np.testing.assert_array_equal(found["a"], np.maximum(x, 0))
    np.testing.assert_array_equal(found["b"], -np.maximum(x, 0))
    assert ir.to_proto(graph).SerializeToString(deterministic=True) == before


def test_a_session_points_to_weights_of_a_store_and_leaves_no_file_behind(tmp_path: Path) -> None:
    large, x = normal(1, 3, 3, 3, INLINE_BYTES // 16), normal(0, 1, 3, 4, INLINE_BYTES // 16)
    graph = imported(tmp_path, [n("Conv", ["x", "w"], ["a"]), n("Neg", ["a"], ["y"])], x.shape, {"w": large})
    plain = run_session(open_model(graph), {"x": x})["y"]
    store = Store(tmp_path / "stages")
    for _ in range(2):  # the weights are new to the store, then they are its own
        before = sorted(store.folder.glob("*")) if store.folder.exists() else []
        np.testing.assert_array_equal(run_session(open_model(graph, store=store), {"x": x})["y"], plain)
        assert (sorted(store.folder.glob("*")), sorted(store.folder.glob(".*"))) == (before, [])
        store.save("00", graph)


def test_a_quantised_model_opens_with_every_tensor_watched() -> None:
    """ONNX Runtime's rewriting refuses it: results of DequantizeLinear are outputs, too."""
    nodes = [
        n("QuantizeLinear", ["x", "s", "z"], ["q"]),
        n("DequantizeLinear", ["q", "s", "z"], ["d"]),
        n("DequantizeLinear", ["w", "s", "zw"], ["wd"]),
        n("Conv", ["d", "wd"], ["y"]),
    ]
    constants = {"s": np.array(0.05, np.float32), "z": np.array(128, np.uint8), "zw": np.array(0, np.int8)}
    constants["w"] = (20 * normal(1, 3, 3, 1, 1)).astype(np.int8)
    graph = ir.from_proto(onnx.shape_inference.infer_shapes(model(nodes, {"x": [1, 3, 4, 4]}, {"y": None}, constants)))
    values = [value for node in graph.graph for value in node.outputs]
    found = run_session(open_model(graph, values), {"x": normal(0, 1, 3, 4, 4)})
    assert set(found) == {value.name for value in values}
