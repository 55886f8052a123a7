"""Large constants leave a model while ONNX's tools work on it, and come back as they were."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import F
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.files.weights import (
    INLINE_BYTES,
    byte_count,
    check_constants,
    check_external,
    constants,
    ir_tensor,
    is_external,
    is_whole,
    onnx_bits,
    strip_inputs,
    take_weights,
)
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
