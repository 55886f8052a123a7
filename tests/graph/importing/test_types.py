"""Types that ONNX's inference does not know are those of ONNX Runtime; what it refuses is left."""

import onnx
import pytest
from onnx import TensorProto, helper

from tests.graph.onnx_builder import model
from toolchain.graph.importing.resolve import infer_partly
from toolchain.graph.importing.types import declare_types

n = helper.make_node


def vendor(*nodes: onnx.NodeProto, output: str) -> onnx.ModelProto:
    proto = model(nodes, {"x": [1, 4]}, {output: None})
    proto.opset_import.add(domain="com.microsoft", version=1)
    proto.graph.output[0].ClearField("type")
    return infer_partly(proto)


def types(proto: onnx.ModelProto) -> dict[str, tuple[int, list[int]]]:
    entries = (*proto.graph.value_info, *proto.graph.output)
    return {entry.name: (entry.type.tensor_type.elem_type, [dim.dim_value for dim in entry.type.tensor_type.shape.dim]) for entry in entries}


def test_operators_of_a_vendor() -> None:
    first, last = n("Gelu", ["x"], ["a"], domain="com.microsoft"), n("QuickGelu", ["a"], ["y"], domain="com.microsoft")
    proto = vendor(first, n("Cast", ["a"], ["b"], to=TensorProto.DOUBLE), last, output="y")
    assert declare_types(proto)
    assert types(infer_partly(proto)) == {"a": (TensorProto.FLOAT, [1, 4]), "b": (TensorProto.DOUBLE, [1, 4]), "y": (TensorProto.FLOAT, [1, 4])}
    assert not declare_types(proto)


def test_nothing_is_missing() -> None:
    proto = infer_partly(model([n("Relu", ["x"], ["y"])], {"x": [1, 4]}, {"y": None}))
    before = proto.SerializeToString()
    assert not declare_types(proto)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("node", [n("NoSuch", ["x"], ["y"], domain="com.microsoft"), n("SequenceConstruct", ["x"], ["y"])])
def test_what_is_refused_or_no_tensor_stays_as_it_is(node: onnx.NodeProto) -> None:
    proto = vendor(node, output="y")
    before = types(proto)
    assert not declare_types(proto)
    assert types(proto) == before
