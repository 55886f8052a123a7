"""Sizes of stored constants, by every type that has one, against numpy."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.onnx_builder import model
from toolchain.graph.files.tensors import byte_count, constants, is_external, is_whole, onnx_bits

n = helper.make_node
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
