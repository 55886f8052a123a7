"""Large constants leave a model while ONNX's tools work on it, and come back as they were."""

from pathlib import Path

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.graph.imported import F
from tests.graph.onnx_builder import model
from toolchain.graph.files.weights import INLINE_BYTES, ir_tensor, strip_inputs, take_weights

n = helper.make_node
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
