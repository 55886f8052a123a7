"""Stages share their weights and come out the same every time.

Tensors inside a graph are shown without changing it.
"""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import imported, normal
from tests.graph.onnx_builder import conv_net, model, n, save
from toolchain.graph.files import INLINE_BYTES
from toolchain.graph.importing.load import load_graph
from toolchain.graph.regions import REGION, TARGET, region_calls, region_function
from toolchain.graph.rewrite import shape_of
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store, open_model, read_stage
from toolchain.passes.context import Context
from toolchain.passes.fold import FoldBatchNorm, FoldConstants
from toolchain.passes.partition import outline
from toolchain.passes.pipeline import run_passes
from toolchain.passes.simplify import RemoveIdentity
from toolchain.spec.errors import UserError


def _build(folder: Path, path: Path) -> list[bytes]:
    store = Store(folder)
    model = load_graph(path, {"batch": 1})
    store.save("0-import", model)
    passes = (FoldConstants(), RemoveIdentity(), FoldBatchNorm())
    run_passes(model, passes, Context(), lambda number, name, left: store.save(f"{number + 1}-{name}", left))
    return [file.read_bytes() for file in sorted(folder.iterdir())]


def test_two_builds_are_equal_and_every_stage_runs(tmp_path: Path) -> None:
    path = save(conv_net(), tmp_path)
    assert _build(tmp_path / "one", path) == _build(tmp_path / "two", path)
    x = {"x": np.random.default_rng(3).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    wanted = run_session(open_session(path), x)["y"]
    stages = sorted((tmp_path / "one").glob("*.onnx"))
    assert len(stages) == 4
    for stage in stages:
        np.testing.assert_allclose(run_session(open_session(stage), x)["y"], wanted, rtol=1e-4, atol=1e-4)


def test_weights_are_written_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    model = load_graph(save(conv_net(), tmp_path), {"batch": 1})
    store.save("a", model)
    store.save("b", model)
    files = list((tmp_path / "out").glob("weights-*.bin"))
    assert len(files) == 1
    assert (tmp_path / "out" / "a.onnx").read_bytes() == (tmp_path / "out" / "b.onnx").read_bytes()


def test_a_file_for_the_moment_goes_again_and_its_weights_with_it(tmp_path: Path) -> None:
    """Weights that a stage left are pointed to; others are written without a hash of them, under a name that no stage has."""
    store, model = Store(tmp_path / "out"), load_graph(save(conv_net(), tmp_path), {"batch": 1})
    with store.borrowed(model) as path:
        assert {file.suffix for file in store.folder.iterdir()} == {".onnx", ".bin"}
        assert not list(store.folder.glob("weights-*"))
        run_session(open_session(path), {"x": normal(1, 1, 3, 8, 8)})
    assert not list(store.folder.iterdir())
    store.save("a", model)
    left = sorted(store.folder.iterdir())
    with store.borrowed(model):
        assert len(list(store.folder.iterdir())) == len(left) + 1
    assert sorted(store.folder.iterdir()) == left
    assert not {*store.digests.values()} - {hashlib.sha256(file.read_bytes()).hexdigest() for file in left}


def external(folder: Path) -> Path:
    """The network with its weights in a file beside it."""
    proto = conv_net()
    onnx.save_model(proto, folder / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=1024)
    return folder / "net.onnx"


def test_weights_that_another_stage_wrote_are_copied_as_they_are(tmp_path: Path) -> None:
    path = external(tmp_path)
    data, alone, given = path.with_name("net.data"), Store(tmp_path / "alone"), load_graph(path, {"batch": 1})
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    store = Store(tmp_path / "out", lent={data.absolute(): digest})
    left = store.save("a", given)
    (weights,) = (tmp_path / "out").glob("weights-*.bin")
    assert weights.name == f"weights-{digest[:16]}.bin"
    assert store.written == [weights, left]
    assert store.digests == {weights: digest}
    assert weights.read_bytes() == data.read_bytes()
    x = {"x": np.random.default_rng(3).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    wanted = run_session(open_session(alone.save("a", load_graph(path, {"batch": 1}))), x)
    assert run_session(open_session(left), x)["y"].tobytes() == wanted["y"].tobytes()
    assert not [found for found in (tmp_path / "out").iterdir() if found.name.startswith(".")]


def test_a_stage_after_that_changes_some_weights_writes_those_alone(tmp_path: Path) -> None:
    path = external(tmp_path)
    data = path.with_name("net.data")
    store = Store(tmp_path / "out", lent={data.absolute(): "0" * 64})
    model = load_graph(path, {"batch": 1})
    store.save("a", model)
    value = next(value for value in model.graph.initializers.values() if value.const_value is not None and value.const_value.nbytes > INLINE_BYTES)
    assert value.const_value is not None
    value.const_value = ir.tensor(value.const_value.numpy() + np.float32(1), name=value.name)
    store.save("b", model)
    sizes = {found.name: found.stat().st_size for found in (tmp_path / "out").glob("weights-*.bin")}
    assert len(sizes) == 2
    assert sizes.pop(f"weights-{'0' * 16}.bin") == data.stat().st_size
    assert list(sizes.values()) == [value.const_value.nbytes]


def with_region(folder: Path) -> ir.Model:
    nodes = [n("Relu", ["x"], ["a"], "relu"), n("Conv", ["a", "w"], ["b"], "conv"), n("Neg", ["b"], ["y"], "neg")]
    model = imported(folder, nodes, constants={"w": normal(0, 4, 3, 3, 3)})
    for node in model.graph:
        node.outputs[0].metadata_props["note"] = node.name or ""
    outline(model, list(model.graph)[1:2], REGION, "region0", {TARGET: "some"})
    return model


def test_inputs_of_a_region_have_shape_type_and_metadata(tmp_path: Path) -> None:
    model = read_stage(Store(tmp_path / "s").save("one", with_region(tmp_path)))
    (call,) = region_calls(model)
    function = region_function(model, call)
    assert [(value.name, shape_of(value), value.dtype) for value in function.inputs] == [
        ("a", (1, 3, 4, 4), ir.DataType.FLOAT),
        ("w", (4, 3, 3, 3), ir.DataType.FLOAT),
    ]
    assert function.inputs[0].metadata_props["note"] == "relu"
    assert shape_of(next(iter(function)).outputs[0]) == (1, 4, 2, 2)
    assert (call.domain, call.metadata_props[TARGET], function.name) == (REGION, "some", "region0")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.onnx: E0001 cannot read the model: No such file"):
        read_stage(tmp_path / "none.onnx")


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
