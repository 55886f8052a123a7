"""Tensors inside a graph are shown without changing it."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
from onnx import helper

from tests.graph.imported import imported, normal
from toolchain.graph.files.store import Store
from toolchain.graph.files.weights import INLINE_BYTES
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import run_session

n = helper.make_node


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
