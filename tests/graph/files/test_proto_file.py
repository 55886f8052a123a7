"""Bytes that are no model are told in one line; a model is read as it is stored."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.onnx_builder import conv_net, save
from toolchain.graph.files.proto_file import read_proto, write_proto
from toolchain.graph.importing.extract import extract_model
from toolchain.graph.running.session import open_session, run_session
from toolchain.spec.errors import UserError


def test_a_model_is_read_as_it_is(tmp_path: Path) -> None:
    proto = conv_net()
    assert read_proto(save(proto, tmp_path)).SerializeToString() == proto.SerializeToString()


@settings(max_examples=35, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("b") / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_proto(path)
    assert str(caught.value).startswith(f"{path}: E0901 ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.ClearField("ir_version"), "names no IR version"),
        (lambda m: m.ClearField("opset_import"), "no operator set"),
        (lambda m: m.graph.ClearField("node"), "no nodes"),
        (lambda m: m.graph.ClearField("output"), "no outputs"),
    ],
)
def test_what_every_model_has(change: object, words: str, tmp_path: Path) -> None:
    proto = conv_net()
    change(proto)  # type: ignore[operator]
    with pytest.raises(UserError, match=f"E0901.*{words}"):
        read_proto(save(proto, tmp_path))


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(conv_net().SerializeToString().replace(b"conv1", b"con\xff1"))
    with pytest.raises(UserError, match="E0901"):
        read_proto(path)


@pytest.fixture
def two_products(tmp_path: Path) -> Path:
    """Two products whose weights lie in one file beside the model."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(33, 33)).astype(np.float32), name) for name in ("v", "w")]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 33])] for name in ("x", "y")]
    proto = helper.make_model(helper.make_graph(nodes, "net", *ends, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, str(tmp_path / "net.onnx"), save_as_external_data=True, location="net.bin", size_threshold=0)
    return tmp_path / "net.onnx"


def test_only_the_weights_of_the_part_are_copied(two_products: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path = tmp_path / "other" / "part.onnx"
    write_proto(extract_model(two_products, ["a"], ["y"]), two_products, path)
    assert sorted(found.name for found in path.parent.iterdir()) == ["part.onnx", "part.onnx.data"]
    assert path.with_name("part.onnx.data").stat().st_size == 33 * 33 * 4
    a = np.random.default_rng(1).normal(size=(1, 33)).astype(np.float32)
    (weight,) = (numpy_helper.to_array(tensor) for tensor in onnx.load(str(two_products)).graph.initializer if tensor.name == "w")
    assert np.allclose(run_session(open_session(path), {"a": a})["y"], a @ weight, atol=1e-4)


def test_both_weights_are_where_the_part_says(two_products: Path, tmp_path: Path) -> None:
    """The second begins at a round place, so that it can be mapped."""
    write_proto(extract_model(two_products, [], []), two_products, tmp_path / "part.onnx")
    x = np.ones((1, 33), np.float32)
    assert np.array_equal(run_session(open_session(tmp_path / "part.onnx"), {"x": x})["y"], run_session(open_session(two_products), {"x": x})["y"])
    entries = [{e.key: e.value for e in t.external_data} for t in onnx.load(str(tmp_path / "part.onnx"), load_external_data=False).graph.initializer]
    assert [int(entry["offset"]) % 64 for entry in entries] == [0, 0]


def test_a_model_is_not_replaced_by_its_part(two_products: Path, tmp_path: Path) -> None:
    (tmp_path / "link.onnx").symlink_to(two_products)
    for path in (two_products, tmp_path / "link.onnx"):
        with pytest.raises(UserError, match=r"E0005 .*it is the model itself"):
            write_proto(extract_model(two_products, ["a"], ["y"]), two_products, path)


def test_data_elsewhere_are_refused(two_products: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "net.bin", tmp_path / "second.bin")
    with pytest.raises(UserError, match="E0902"):
        extract_model(two_products, ["a"], ["y"])


def test_a_place_that_cannot_be_written_is_told(two_products: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0005"):
        write_proto(extract_model(two_products, ["a"], ["y"]), two_products, tmp_path / "none" / "part.onnx")
