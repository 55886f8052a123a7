"""Shapes as a file says them."""

from onnx import TensorProto, helper

from toolchain.graph.nodes.tensor_shapes import tensor_shapes


def test_constants_inputs_results_and_what_is_open() -> None:
    info = helper.make_tensor_value_info
    x, y, r = info("x", TensorProto.FLOAT, ["n", 3]), info("y", TensorProto.FLOAT, []), info("r", TensorProto.FLOAT, None)
    held = [helper.make_tensor("w", TensorProto.INT64, [2], [1, 2])]
    graph = helper.make_graph([], "g", [x, helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1])], [y], held, value_info=[r])
    assert tensor_shapes(helper.make_model(graph)) == {"w": (2,), "x": (None, 3), "y": ()}
