"""Shapes come from the operators, never from what the file declares; inference and folding go on until neither finds anything more."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import model
from toolchain.graph.importing.load import load_graph
from toolchain.graph.importing.resolve import resolve_shapes, strict_complaint, tensor_shapes, write_scalars
from toolchain.graph.nodes.rewrite import shape_of
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import run_session

n = helper.make_node


def test_wrong_declarations_are_only_hints() -> None:
    proto = model([n("Relu", ["x"], ["t"]), n("Flatten", ["t"], ["y"])], {"x": [2, 3, 4]}, {"y": [7, "n"]})
    proto.graph.value_info.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [9, 9]))
    shapes = tensor_shapes(resolve_shapes(proto))
    assert (shapes["t"], shapes["y"]) == ((2, 3, 4), (2, 12))


def test_folding_and_inference_take_turns() -> None:
    """The second Reshape's target is known only once the first one's shape is, and an If hangs on it."""
    part = [n("Constant", [], ["q"], value_float=2.0), n("Mul", ["b", "q"], ["r"])]
    branch = helper.make_graph(part, "g", [], [onnx.ValueInfoProto(name="r")])
    nodes = [
        n("Shape", ["x"], ["s"]),
        n("Slice", ["s", "zero", "one"], ["first"]),
        n("Concat", ["first", "minus"], ["to"], axis=0),
        n("Reshape", ["x", "to"], ["a"]),
        n("Shape", ["a"], ["t"]),
        n("Gather", ["t", "last"], ["width"]),
        n("Equal", ["width", "twelve"], ["is"]),
        n("Transpose", ["a"], ["b"]),
        n("If", ["is"], ["y"], then_branch=branch, else_branch=branch),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "minus": np.array([-1]), "last": np.array(1), "twelve": np.array(12)}
    proto, x = model(nodes, {"x": [2, 3, 4]}, {"y": None}, constants), {"x": normal(0, 2, 3, 4)}
    wanted = run(proto, x)["y"]
    result = resolve_shapes(proto)
    assert [node.op_type for node in result.graph.node] == ["Reshape", "Transpose", "Mul", "Identity"]
    assert tensor_shapes(result)["y"] == (12, 2)
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


def test_what_depends_on_the_data_stays_open() -> None:
    proto = model([n("NonZero", ["x"], ["i"]), n("Cast", ["i"], ["y"], to=1)], {"x": [3]}, {"y": None})
    assert tensor_shapes(resolve_shapes(proto))["y"] == (1, None)


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 9), st.integers(1, 2), st.integers(0, 2), st.booleans())
def test_sizes_behind_a_pool_that_rounds_up_are_those_of_onnx_runtime(size: int, begin: int, end: int, shape: bool) -> None:
    """ONNX's inference counts windows that ONNX Runtime leaves out; neither a shape nor a constant of it may remain."""
    nodes = [
        n("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[begin, begin, end, end], ceil_mode=1),
        n("Relu", ["p"], ["q"]),
        n("Shape", ["q"], ["s"]),
        *([n("Cast", ["s"], ["y"], to=1)] if shape else [n("Identity", ["q"], ["y"])]),
    ]
    proto, x = model(nodes, {"x": [1, 1, size, size]}, {"y": None}), {"x": normal(0, 1, 1, size, size)}
    wanted = run(proto, x)["y"]
    result = resolve_shapes(proto)
    np.testing.assert_array_equal(run(result, x)["y"], wanted)
    assert tensor_shapes(result)["y"] == wanted.shape


def test_results_of_operators_outside_the_standard_have_type_and_shape() -> None:
    """A vendor's operator between two of ONNX's; the pool after it rounds up, so all shapes are looked for again."""
    nodes = [
        n("Gelu", ["x"], ["g"], domain="com.microsoft"),
        n("MaxPool", ["g"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 2, 2], ceil_mode=1),
        n("Flatten", ["p"], ["y"]),
    ]
    proto = model(nodes, {"x": [1, 2, 5, 5]}, {"y": None})
    proto.opset_import.add(domain="com.microsoft", version=1)
    shapes = tensor_shapes(resolve_shapes(proto))
    assert (shapes["g"], shapes["p"], shapes["y"]) == ((1, 2, 5, 5), (1, 2, 3, 3), (1, 18))


def test_strict_inference_tells_what_does_not_fit() -> None:
    good, bad = (model([n("Add", ["x", "k"], ["y"])], {"x": [2, 3]}, {"y": None}, {"k": np.zeros(size, F)}) for size in (3, 4))
    assert strict_complaint(good) == ""
    assert "Incompatible dimensions" in strict_complaint(bad)


def test_an_imported_graph_has_every_shape(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Conv", ["x", "w"], ["c"]), n("GlobalAveragePool", ["c"], ["y"])], constants={"w": np.ones((2, 3, 3, 3), F)})
    assert [shape_of(node.outputs[0]) for node in graph.graph] == [(1, 2, 2, 2), (1, 2, 1, 1)]


def ranged(shape: list[int]) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("start", "limit", "delta")]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, [None])
    graph = helper.make_graph([helper.make_node("Range", ["start", "limit", "delta"], ["y"], "range")], "g", ends, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("shape", [[], [1]])
def test_operands_with_one_element(shape: list[int], tmp_path: Path) -> None:
    onnx.save(ranged(shape), tmp_path / "range.onnx")
    given = {name: np.full(shape, value, np.int64) for name, value in (("start", 2), ("limit", 9), ("delta", 3))}
    found = run_session(open_model(load_graph(tmp_path / "range.onnx")), given)
    assert found["y"].tolist() == [2, 5, 8]


def test_scalars_stay_as_they_are() -> None:
    graph = ranged([]).graph
    assert not write_scalars(graph, {"start": (), "limit": (), "delta": ()})
    assert len(graph.node) == 1


def test_only_what_has_one_axis_is_changed() -> None:
    graph = ranged([]).graph
    assert write_scalars(graph, {"start": (1,), "limit": (), "delta": None})
    assert [node.op_type for node in graph.node] == ["Squeeze", "Range"]
    assert list(graph.node[1].input) == [graph.node[0].output[0], "limit", "delta"]
