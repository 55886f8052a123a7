"""The small steps of passes: a graph computes the same after each, and names stand for the same values."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from tests.graph.imported import F, imported, node_of, normal, run
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.rewrite import (
    CACHED,
    add_constant,
    bypass,
    captured,
    clip,
    constant,
    drop_unused_constants,
    fresh_name,
    integer,
    ints,
    is_float,
    is_operator,
    known_shape,
    multiplied,
    real,
    replace_value,
    row_blocks,
    shape_of,
    single_use,
    sliced,
    substitute,
    text,
)  # fmt: skip


def chain(folder: Path, *outputs: str) -> ir.Model:
    """a = relu x, b = a unchanged, y = -b; w is read by nobody."""
    nodes = [n("Relu", ["x"], ["a"], "relu"), n("Mul", ["a", "one"], ["b"], "same"), n("Neg", ["b"], ["y"], "neg")]
    return load_graph(save(model(nodes, {"x": [2, 3]}, dict.fromkeys(outputs or ("y",)), {"one": np.ones(3, F)}), folder))


@pytest.mark.parametrize("outputs", [("y",), ("b", "y"), ("a", "y"), ("a", "b", "y")])
def test_an_operator_that_changes_nothing_is_taken_out(outputs: tuple[str, ...], tmp_path: Path) -> None:
    """Where its operand and its result are both handed out it has to stay: one tensor has one name."""
    graph, x = chain(tmp_path, *outputs), {"x": normal(0, 2, 3)}
    wanted = run(graph, x)
    same = node_of(graph, "Mul")
    assert same.inputs[0] is not None
    bypass(graph.graph, same, same.inputs[0])
    assert len(graph.graph) == (3 if set(outputs) >= {"a", "b"} else 2)
    found = run(graph, x)
    assert list(found) == list(outputs)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_an_input_that_is_handed_out_keeps_the_operator(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Identity", ["x"], ["y"])])
    node = next(iter(graph.graph))
    assert node.inputs[0] is not None
    bypass(graph.graph, node, node.inputs[0])
    assert len(graph.graph) == 1


@pytest.mark.parametrize("rename", [True, False])
def test_a_name_goes_with_its_value(rename: bool, tmp_path: Path) -> None:
    graph = chain(tmp_path)
    old = node_of(graph, "Mul").outputs[0]
    old.metadata_props["note"] = "kept"
    made = ir.node("Abs", [node_of(graph, "Relu").outputs[0]], num_outputs=1)
    made.outputs[0].name = "c"
    graph.graph.insert_before(node_of(graph, "Mul"), made)
    replace_value(old, made.outputs[0], rename)
    assert made.outputs[0].name == ("b" if rename else "c")
    assert made.outputs[0].metadata_props["note"] == "kept"
    assert node_of(graph, "Neg").inputs[0] is made.outputs[0]
    assert not old.uses()


def test_a_node_in_the_place_of_two(tmp_path: Path) -> None:
    graph = chain(tmp_path)
    relu, same, neg = graph.graph
    shape, kind = same.outputs[0].shape, same.outputs[0].type
    made = clip(graph.graph, graph.graph.inputs[0], (0.0, np.inf), "clip", ("one", "high"))
    substitute(graph.graph, [same, relu], [made])
    assert [node.op_type for node in graph.graph] == ["Clip", "Neg"]
    output = neg.inputs[0]
    assert output is made.outputs[0]
    assert output is not None
    assert (output.name, output.shape, output.type) == ("b", shape, kind)
    assert [value.name for value in made.inputs[1:] if value is not None] == ["one.1", "high"]
    x = normal(0, 2, 3)
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], -np.maximum(x, 0))


def test_constants_have_names_of_their_own(tmp_path: Path) -> None:
    graph = chain(tmp_path).graph
    names = [add_constant(graph, "one", np.full(3, k, F)).name for k in range(3)]
    assert names == ["one.1", "one.2", "one.3"]
    assert fresh_name(graph, "other") == "other"
    np.testing.assert_array_equal(constant(graph.initializers["one.3"]), np.full(3, 2, F))
    drop_unused_constants(graph)
    assert list(graph.initializers) == ["one"]


def test_what_is_asked_of_values(tmp_path: Path) -> None:
    graph = chain(tmp_path, "b", "y")
    x, a, b = graph.graph.inputs[0], node_of(graph, "Relu").outputs[0], node_of(graph, "Mul").outputs[0]
    assert [constant(value) is None for value in (x, a, None)] == [True, True, True]
    assert (single_use(a), single_use(b)) == (True, False)
    assert [is_float(value) for value in (a, None)] == [True, False]
    assert known_shape(None) is None
    with pytest.raises(ValueError, match="the tensor 't' has no fixed shape"):
        shape_of(ir.Value(name="t", shape=ir.Shape([1, "n"])))


def test_what_is_asked_of_nodes(tmp_path: Path) -> None:
    nodes = [n("Conv", ["x", "w"], ["a"], strides=[2, 1], group=3, auto_pad="VALID"), n("LeakyRelu", ["a"], ["y"], alpha=0.25)]
    conv, leaky = imported(tmp_path, nodes, constants={"w": np.ones((3, 1, 1, 1), F)}).graph
    assert (ints(conv, "strides", ()), ints(conv, "pads", (0, 0))) == ((2, 1), (0, 0))
    assert (integer(conv, "group", 1), integer(leaky, "group", 1)) == (3, 1)
    assert (real(leaky, "alpha", 1), real(conv, "alpha", 1)) == (0.25, 1)
    assert (text(conv, "auto_pad", "NOTSET"), text(leaky, "auto_pad", "NOTSET")) == ("VALID", "NOTSET")
    assert is_operator(conv, "Conv", "Gemm")
    assert not is_operator(None, "Conv")
    assert not is_operator(ir.node("Conv", [], domain="mine"), "Conv")


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        (([1], [3], [1]), (1, range(1, 3))),
        (([-2], [99], [-1]), (2, range(3, 5))),
        (([0], [2]), (0, range(2))),
        (([4], [0], [2], [-2]), (2, range(4, 0, -2))),
        (([0, 0], [1, 1], [0, 1]), None),
    ],
)
def test_elements_that_a_slice_of_one_axis_keeps(bounds: tuple[list[int], ...], found: tuple[int, range] | None, tmp_path: Path) -> None:
    names = [f"b{number}" for number in range(len(bounds))]
    constants = {name: np.array(bound, np.int64) for name, bound in zip(names, bounds, strict=True)}
    graph = imported(tmp_path, [n("Slice", ["x", *names], ["y"])], constants=constants, x=(2, 4, 5))
    assert sliced(node_of(graph, "Slice")) == found


def test_tensors_that_subgraphs_read(tmp_path: Path) -> None:
    """Through two levels, and an outer tensor that a branch hands out as it is."""
    inner = helper.make_graph([n("Add", ["a", "t"], ["r"])], "g", [], [onnx.ValueInfoProto(name="r")])
    then = helper.make_graph(
        [n("Neg", ["x"], ["t"]), n("If", ["c"], ["u"], then_branch=inner, else_branch=inner)], "g", [], [onnx.ValueInfoProto(name="u")]
    )
    other = helper.make_graph([n("Identity", ["b"], ["v"])], "g", [], [onnx.ValueInfoProto(name="v")])
    nodes = [n("Relu", ["x"], ["a"]), n("Abs", ["x"], ["b"]), n("If", ["c"], ["y"], "if", then_branch=then, else_branch=other)]
    proto = model(nodes, {"x": [3]}, {"y": None})
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    graph = load_graph(save(proto, tmp_path))
    assert {value.name for value in captured(node_of(graph, "If"))} == {"x", "a", "b", "c"}
    assert captured(node_of(graph, "Relu")) == []


def test_products_are_computed_in_float64_and_rounded_once() -> None:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(7, 1, 1))
    for dtype in (np.float16, np.float32, np.float64):
        array = rng.normal(size=(7, 3, 5)).astype(dtype)
        found = multiplied(array, factors)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, (array.astype(np.float64) * factors).astype(dtype))


def test_blocks_of_rows_are_all_rows_once() -> None:
    for shape in ((1,), (5, 3), (3, CACHED), (CACHED + 7, 1), (0, 4), (4, 0)):
        array = np.zeros(shape, np.int8)
        parts = [array[part] for part in row_blocks(array)]
        assert sum(map(len, parts)) == len(array)
        assert all(part.size <= max(CACHED, array[:1].size) for part in parts)
