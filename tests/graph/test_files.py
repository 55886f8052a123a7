"""Large constants leave a model while ONNX's tools work on it, and come back as they were.

Bytes that are no model are told in one line; a model is read as it is stored.
"""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import F
from tests.graph.onnx_builder import conv_net, model, n, save
from toolchain.graph.files import (
    INLINE_BYTES,
    byte_count,
    check_constants,
    check_external,
    constants,
    ir_tensor,
    is_external,
    is_whole,
    onnx_bits,
    read_proto,
    strip_inputs,
    take_weights,
    write_proto,
)
from toolchain.graph.pieces import extract_model
from toolchain.graph.session import open_session, run_session
from toolchain.spec.errors import UserError

DTYPES = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_, np.complex64]


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3))
def test_bytes_of_a_type_and_shape(dtype: type, shape: list[int]) -> None:
    array = np.zeros(shape, dtype)
    tensor = numpy_helper.from_array(array, "w")
    assert byte_count(tensor) == array.nbytes
    assert onnx_bits(tensor.data_type) == array.itemsize * 8
    assert is_whole(tensor)
    tensor.raw_data += b"\0"
    assert not is_whole(tensor)


@pytest.mark.parametrize(("kind", "count", "size"), [(TensorProto.INT4, 3, 2), (TensorProto.UINT4, 4, 2), (TensorProto.FLOAT8E4M3FN, 3, 3)])
def test_small_types_are_packed(kind: int, count: int, size: int) -> None:
    assert byte_count(TensorProto(data_type=kind, dims=[count])) == size


@pytest.mark.parametrize(
    "tensor", [TensorProto(data_type=TensorProto.STRING, dims=[2]), TensorProto(data_type=1, dims=[-1]), TensorProto(data_type=99)]
)
def test_what_has_no_size(tensor: TensorProto) -> None:
    assert byte_count(tensor) == -1


def test_values_in_fields_of_their_own() -> None:
    assert is_whole(helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0]))
    assert not is_whole(TensorProto(data_type=TensorProto.FLOAT, dims=[3], float_data=[1.0, 2.0]))
    assert is_whole(TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[b"a"]))
    assert not is_external(helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]))


def test_constants_of_attributes_and_subgraphs() -> None:
    held = numpy_helper.from_array(np.ones(1, np.float32), "inner")
    body = helper.make_graph([n("Constant", [], ["k"], value=held)], "g", [], [onnx.ValueInfoProto(name="k")], [held])
    proto = model([n("If", ["c"], ["y"], then_branch=body, else_branch=body)], {"x": [1]}, {"y": None}, {"c": np.array(True)})
    assert [name for name, _ in constants(proto.graph)] == ["c", "inner", "k", "inner", "k"]


def tensor(**entries: str) -> onnx.TensorProto:
    """Of 4 floats."""
    found = onnx.TensorProto(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries.items():
        found.external_data.add(key=key, value=value)
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(0, 60), st.booleans())
def test_exactly_what_lies_in_the_file(tmp_path_factory: pytest.TempPathFactory, offset: int, size: int, length: bool) -> None:
    folder = tmp_path_factory.mktemp("e")
    (folder / "deep").mkdir()
    (folder / "deep" / "w.bin").write_bytes(bytes(size))
    entries = {"location": "deep/w.bin", "offset": str(offset)} | ({"length": "16"} if length else {})
    if offset + 16 <= size:
        assert check_external("w", tensor(**entries), folder / "net.onnx") == ("deep/w.bin", offset, 16)
    else:
        with pytest.raises(UserError, match=r"E0902 external data of tensor 'w': bytes .* are past the end"):
            check_external("w", tensor(**entries), folder / "net.onnx")


def test_a_whole_file_without_an_offset(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.zeros(4, np.float32).tobytes())
    assert check_external("w", tensor(location="w.bin"), tmp_path / "net.onnx") == ("w.bin", 0, 16)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "a", "", "C:", "w.bin", "\\", "\0"]), min_size=1, max_size=4))
def test_no_path_leads_out(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("e") / "inside"
    folder.mkdir()
    (folder.parent / "w.bin").write_bytes(bytes(16))
    with pytest.raises(UserError, match="E0902"):
        check_external("w", tensor(location="/".join(parts)), folder / "net.onnx")


def test_constants_of_a_model(tmp_path: Path) -> None:
    proto = model([onnx.helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, {"y": None})
    proto.graph.initializer.append(tensor(location="none.bin"))
    with pytest.raises(UserError, match=r"E0902 external data of tensor 'w': cannot read 'none.bin': No such file"):
        check_constants(proto, save(proto, tmp_path))
    proto.graph.initializer[0].CopyFrom(onnx.TensorProto(name="w", dims=[4], data_type=1, raw_data=bytes(15)))
    with pytest.raises(UserError, match="E0901 the constant 'w' of shape 4 does not hold as many values"):
        check_constants(proto, save(proto, tmp_path))


EDGE = INLINE_BYTES // 4


def test_what_goes_and_what_stays() -> None:
    """Small ones are read by inference; those of subgraphs and outputs have to stay where they are."""
    body = helper.make_graph([n("Neg", ["captured"], ["r"])], "g", [], [onnx.ValueInfoProto(name="r")])
    constants = {name: np.zeros(size, F) for name, size in (("small", EDGE), ("large", EDGE + 1), ("captured", EDGE + 1), ("handed", EDGE + 1))}
    nodes = [n("Sum", ["x", "small", "large"], ["a"]), n("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    proto = model(nodes, {"x": [1], "large": [EDGE + 1], "small": [EDGE]}, {"y": None, "handed": None}, constants | {"c": np.array(True)})
    taken = take_weights(proto)
    assert list(taken) == ["large"]
    assert [tensor.name for tensor in proto.graph.initializer] == ["small", "captured", "handed", "c"]
    assert [entry.name for entry in proto.graph.input] == ["x", "large"]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([np.float32, np.float16, np.int8, np.int64, np.bool_]), st.integers(0, 50))
def test_tensors_come_back_as_they_were(dtype: type, size: int) -> None:
    array = np.arange(size).astype(dtype)
    np.testing.assert_array_equal(ir_tensor(numpy_helper.from_array(array, "w"), Path("net.onnx")).numpy(), array)


def test_external_ones_are_mapped(tmp_path: Path) -> None:
    array = np.arange(6, dtype=F).reshape(2, 3)
    (tmp_path / "w.bin").write_bytes(b"12345678" + array.tobytes())
    tensor = onnx.TensorProto(name="w", dims=array.shape, data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "8")):
        tensor.external_data.add(key=key, value=value)
    np.testing.assert_array_equal(ir_tensor(tensor, tmp_path / "net.onnx").numpy(), array)


def test_inputs_that_are_stripped() -> None:
    proto = model([n("Add", ["a", "b"], ["y"])], {"a": [1], "b": [1], "c": [1]}, {"y": None})
    strip_inputs(proto, {"b", "none"})
    assert [entry.name for entry in proto.graph.input] == ["a", "c"]


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
