"""What depends on no input is computed as ONNX Runtime would; what is large, random or handed out is not lost."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.graph.imported import F, normal, run
from tests.graph.onnx_builder import model, n
from toolchain.graph.importing.fold_nodes import MAX_ELEMENTS, fold_nodes, lift_constants
from toolchain.graph.importing.resolve import infer_partly, tensor_shapes


def folded(proto: onnx.ModelProto) -> onnx.ModelProto:
    """As often as there is something to fold."""
    lift_constants(proto.graph)
    for _ in range(8):
        proto = infer_partly(proto)
        if not fold_nodes(proto, tensor_shapes(proto)):
            return proto
    raise AssertionError("it never ends")


def test_a_chain_of_shapes_becomes_one_constant() -> None:
    nodes = [
        n("Shape", ["x"], ["s"], start=1),
        n("ReduceProd", ["s"], ["p"]),
        n("Constant", [], ["minus"], value_ints=[-1]),
        n("Concat", ["minus", "p"], ["to"], axis=0),
        n("Reshape", ["x", "to"], ["y"]),
    ]
    proto, x = model(nodes, {"x": [2, 3, 4]}, {"y": None}), {"x": normal(0, 2, 3, 4)}
    wanted = run(proto, x)["y"]
    result = folded(proto)
    assert [node.op_type for node in result.graph.node] == ["Reshape"]
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


def test_size_and_parts_of_a_shape_need_no_values() -> None:
    nodes = [n("Size", ["x"], ["a"]), n("Shape", ["x"], ["b"], start=-2, end=-1), n("Mul", ["a", "b"], ["y"])]
    proto = model(nodes, {"x": [2, 3, 4]}, {"y": None})
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    result = folded(proto)
    assert [node.op_type for node in result.graph.node] == ["Constant"]
    np.testing.assert_array_equal(run(result, {"x": normal(0, 2, 3, 4)})["y"], [72])


def test_an_open_size_is_not_guessed() -> None:
    proto = infer_partly(model([n("Shape", ["x"], ["s"]), n("Cast", ["s"], ["y"], to=1)], {"x": ["batch", 3]}, {"y": None}))
    assert not fold_nodes(proto, tensor_shapes(proto))


@pytest.mark.parametrize("over", [0, 1])
def test_a_large_result_stays_to_be_computed(over: int) -> None:
    constants = {"k": np.array([MAX_ELEMENTS + over]), "zero": np.array([0])}
    nodes = [n("Expand", ["zero", "k"], ["big"]), n("ReduceSum", ["big"], ["r"]), n("Cast", ["r"], ["c"], to=1), n("Add", ["x", "c"], ["y"])]
    result = folded(model(nodes, {"x": [1]}, {"y": None}, constants))
    assert ("Expand" in [node.op_type for node in result.graph.node]) == bool(over)


def test_random_numbers_are_not_constants() -> None:
    nodes = [n("RandomNormalLike", ["k"], ["r"]), n("Add", ["x", "r"], ["y"])]
    result = folded(model(nodes, {"x": [3]}, {"y": None}, {"k": np.zeros(3, F)}))
    assert [node.op_type for node in result.graph.node] == ["RandomNormalLike", "Add"]


def test_what_onnx_runtime_refuses_is_left_for_it_to_say() -> None:
    nodes = [n("Gather", ["k", "far"], ["g"]), n("Add", ["x", "g"], ["y"])]
    result = folded(model(nodes, {"x": [1]}, {"y": None}, {"k": np.zeros(3, F), "far": np.array([7])}))
    assert [node.op_type for node in result.graph.node] == ["Gather", "Add"]


@pytest.mark.parametrize(
    ("attribute", "wanted"),
    [
        ({"value_int": 7}, np.int64(7)),
        ({"value_ints": [7, 8]}, np.array([7, 8])),
        ({"value_float": 0.5}, F(0.5)),
        ({"value_floats": [0.5, 2]}, np.array([0.5, 2], F)),
        ({"value": helper.make_tensor("t", TensorProto.DOUBLE, [1, 1], [3.0])}, np.array([[3.0]])),
    ],
)
def test_constants_of_every_form(attribute: dict[str, object], wanted: np.ndarray) -> None:
    nodes = [n("Constant", [], ["k"], **attribute), n("Cast", ["k"], ["c"], to=1), n("Add", ["x", "c"], ["y"])]
    proto, x = model(nodes, {"x": [1, 2]}, {"y": None}), {"x": normal(0, 1, 2)}
    before = run(proto, x)["y"]
    lift_constants(proto.graph)
    (tensor,) = proto.graph.initializer
    stored = onnx.numpy_helper.to_array(tensor)
    assert stored.dtype == wanted.dtype
    np.testing.assert_array_equal(stored, wanted)
    np.testing.assert_array_equal(run(proto, x)["y"], before)


def test_an_output_that_is_a_constant_stays_one() -> None:
    proto = model([n("Constant", [], ["y"], value_float=2.0), n("Relu", ["x"], ["z"])], {"x": [1]}, {"y": None, "z": None})
    lift_constants(proto.graph)
    assert [node.op_type for node in proto.graph.node] == ["Constant", "Relu"]
