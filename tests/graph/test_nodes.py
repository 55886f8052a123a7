"""How messages name nodes and shapes.

Bodies of conditions and loops, at any depth.

Orders, names and constants of a graph: whatever is taken can be run, and one tensor has one maker.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import F, normal, run
from tests.graph.onnx_builder import PATH, model, n
from toolchain.graph.nodes import (
    all_nodes,
    called_functions,
    check_sizes,
    drop_unread,
    needed,
    node_text,
    own_names,
    part_names,
    replace_nodes,
    shape_text,
    sort_nodes,
    subgraphs,
    tensor_shapes,
    unify_constants,
)
from toolchain.spec.errors import UserError


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (helper.make_node("Conv", ["x"], ["y"], "c"), "node 'c' (Conv)"),
        (helper.make_node("Conv", ["x"], ["y"]), "node 'y' (Conv)"),
        (helper.make_node("Gelu", ["x"], ["y"], "g", domain="mine"), "node 'g' (mine.Gelu)"),
        (helper.make_node("Relu", ["x"], ["y"], "r", domain="ai.onnx"), "node 'r' (Relu)"),
        (helper.make_node("Relu", ["x"], []), "node '' (Relu)"),
    ],
)
def test_nodes(node: object, wanted: str) -> None:
    assert node_text(node) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "wanted"), [((1, 3, 224, 224), "1x3x224x224"), ((1, None, "n"), "1x?xn"), ((), "scalar"), (None, "of unknown rank"), ((0,), "0")]
)
def test_shapes(shape: tuple[int | str | None, ...] | None, wanted: str) -> None:
    assert shape_text(shape) == wanted


def body(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, "g", [], [])


def test_every_body_of_a_node_and_every_node_of_a_body() -> None:
    inner = n("If", ["c"], ["t"], "inner", then_branch=body(n("Abs", [], [], "deep")), else_branch=body())
    outer = n("If", ["c"], ["y"], "outer", then_branch=body(n("Neg", [], [], "a"), inner), else_branch=body(n("Exp", [], [], "b")))
    listed = n("Custom", [], [], "listed", bodies=[body(n("Sin", [], [], "c")), body(n("Cos", [], [], "d"))])
    assert [len(subgraphs(node)) for node in (outer, inner, listed, n("Relu", ["x"], ["y"], alpha=1))] == [2, 2, 2, 0]
    assert [node.name for node in all_nodes([outer, listed])] == ["outer", "b", "a", "inner", "deep", "listed", "c", "d"]  # attributes by name


def test_names_of_a_graph_are_what_it_takes_stores_and_makes() -> None:
    x, w = helper.make_tensor_value_info("x", 1, [1]), helper.make_tensor("w", 1, [1], [2.0])
    graph = helper.make_graph([n("Add", ["x", "outer"], ["y"]), n("Mul", ["y", "w"], ["z"])], "g", [x], [], [w])
    assert own_names(graph) == {"x", "w", "y", "z"}


def test_a_graph_is_given_some_of_its_own_nodes() -> None:
    graph = body(n("Abs", ["x"], ["y"], "a"), n("Neg", ["y"], ["z"], "b"), n("Exp", ["z"], ["t"], "c"))
    replace_nodes(graph, [graph.node[2], n("Sin", ["t"], ["u"], "d"), graph.node[0]])
    assert [(node.name, node.op_type) for node in graph.node] == [("c", "Exp"), ("d", "Sin"), ("a", "Abs")]


def test_functions_are_found_through_bodies_and_through_each_other() -> None:
    ids = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]
    functions = {
        ("d", name, ""): helper.make_function("d", name, ["x"], ["y"], [n(calls, ["x"], ["y"], domain=domain)], ids)
        for name, calls, domain in (("One", "Two", "d"), ("Two", "One", "d"), ("Three", "Abs", ""))
    }
    hidden = n("If", ["c"], ["y"], then_branch=body(n("One", ["x"], ["y"], domain="d")), else_branch=body())
    assert set(called_functions([hidden], functions.get)) == {("d", "One", ""), ("d", "Two", "")}
    assert called_functions([n("Abs", ["x"], ["y"])], functions.get) == {}


def test_constants_inputs_results_and_what_is_open() -> None:
    info = helper.make_tensor_value_info
    x, y, r = info("x", TensorProto.FLOAT, ["n", 3]), info("y", TensorProto.FLOAT, []), info("r", TensorProto.FLOAT, None)
    held = [helper.make_tensor("w", TensorProto.INT64, [2], [1, 2])]
    graph = helper.make_graph([], "g", [x, helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1])], [y], held, value_info=[r])
    assert tensor_shapes(helper.make_model(graph)) == {"w": (2,), "x": (None, 3), "y": ()}


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.randoms(use_true_random=False))
def test_any_order_is_put_into_one_that_runs(count: int, random: object) -> None:
    names = ["x", *(f"t{k}" for k in range(count))]
    nodes = [n("Add", [random.choice(names[: k + 1]), random.choice(names[: k + 1])], [f"t{k}"], f"n{k}") for k in range(count)]  # type: ignore[attr-defined]
    proto, x = model(nodes, {"x": [3]}, dict.fromkeys(names[1:])), {"x": normal(0, 3)}
    wanted = run(proto, x)
    shuffled = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    del proto.graph.node[:]
    proto.graph.node.extend(shuffled)
    sort_nodes(proto.graph, PATH)
    for name, array in run(proto, x).items():
        np.testing.assert_array_equal(array, wanted[name])
    before = [node.name for node in proto.graph.node]
    sort_nodes(proto.graph, PATH)
    assert [node.name for node in proto.graph.node] == before


def test_an_order_that_runs_stays() -> None:
    nodes = [n("Neg", ["x"], ["b"], "b"), n("Abs", ["x"], ["a"], "a"), n("Add", ["a", "b"], ["y"], "y")]
    proto = model(nodes, {"x": [3]}, {"y": None})
    sort_nodes(proto.graph, PATH)
    assert [node.name for node in proto.graph.node] == ["b", "a", "y"]


def test_a_tensor_that_only_a_subgraph_reads_comes_first() -> None:
    body = helper.make_graph([n("Neg", ["late"], ["r"])], "g", [], [onnx.ValueInfoProto(name="r")])
    nodes = [n("If", ["c"], ["y"], "if", then_branch=body, else_branch=body), n("Abs", ["x"], ["late"], "late")]
    proto = model(nodes, {"x": [3]}, {"y": None}, {"c": np.array(True)})
    assert set(needed(nodes[0])) == {"c", "late"}
    sort_nodes(proto.graph, PATH)
    assert [node.name for node in proto.graph.node] == ["late", "if"]


def test_a_long_cycle_is_shortened() -> None:
    ring = [n("Add", ["x", f"t{(k + 9) % 10}"], [f"t{k}"], f"n{k}") for k in range(10)]
    with pytest.raises(UserError, match=r"E0903 the graph has a cycle: node 'n\d' \(Add\) -> .* -> \.\.\. -> ") as caught:
        sort_nodes(model([*ring, n("Neg", ["t0"], ["y"])], {"x": [3]}, {"y": None}).graph, PATH)
    assert str(caught.value).count("->") == 5


@given(st.lists(st.sampled_from(["a", "b", "a b", "a\nb", ""]), min_size=1, max_size=6))
def test_every_node_has_a_line_of_its_own(names: list[str]) -> None:
    nodes = [n("Neg", [f"t{k}"], [f"t{k + 1}"], name) for k, name in enumerate(names)]
    proto = model(nodes, {"t0": [1]}, {f"t{len(names)}": None})
    part_names(proto.graph)
    found = [node.name for node in proto.graph.node]
    assert len(set(found)) == len(names)
    assert all(name and "\n" not in name for name in found)
    assert all(one.startswith(" ".join(given_.split()) or f"t{k + 1}") for k, (one, given_) in enumerate(zip(found, names, strict=True)))


@pytest.mark.parametrize("inside", [False, True])
def test_a_result_left_out_is_refused_as_onnx_runtime_would_end_the_process(inside: bool) -> None:
    split = helper.make_node("Split", ["x"], ["a", "", "b"], "parts", num_outputs=3)
    branch = helper.make_graph([split], "branch", [], [])
    node = helper.make_node("If", ["c"], ["a"], "if", then_branch=branch, else_branch=branch) if inside else split
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xc"], [])
    with pytest.raises(UserError, match=r"E0903 node 'parts' \(Split\) leaves result 1 without a name"):
        sort_nodes(graph, Path("net.onnx"))


def stored(*arrays: np.ndarray) -> onnx.GraphProto:
    proto = model([n("Add", ["x", "w"], ["y"])], {"x": [3]}, {"y": None})
    proto.graph.initializer.extend(numpy_helper.from_array(array, "w") for array in arrays)
    return proto.graph


def test_equal_constants_of_one_name_are_one() -> None:
    graph = stored(np.ones(3, F), np.ones(3, F), np.ones(3, F))
    unify_constants(graph, PATH)
    assert [tensor.name for tensor in graph.initializer] == ["w"]


@pytest.mark.parametrize("other", [np.zeros(3, F), np.ones(3, np.float64), np.ones((3, 1), F)])
def test_different_constants_of_one_name_are_refused(other: np.ndarray) -> None:
    """ONNX Runtime warns that it takes the last, and takes the first."""
    with pytest.raises(UserError, match=r"^net.onnx: E0903 the constant 'w' is stored twice, with different values; store it once"):
        unify_constants(stored(np.ones(3, F), other), PATH)


def test_constants_that_nothing_reads_go() -> None:
    body = helper.make_graph([n("Neg", ["inner"], ["r"])], "g", [], [onnx.ValueInfoProto(name="r")])
    constants = {name: np.ones(1, F) for name in ("read", "inner", "handed", "unread")} | {"c": np.array(True)}
    nodes = [n("Add", ["x", "read"], ["a"]), n("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    proto = model(nodes, {"x": [1]}, {"y": None, "a": None, "handed": None}, constants)
    drop_unread(proto.graph)
    assert sorted(tensor.name for tensor in proto.graph.initializer) == ["c", "handed", "inner", "read"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("", ""), "is made by node 1 (Abs, without a name) and by node 0 (Relu, without a name)"),
        (("first", "second"), "is made by node 'second' (Abs) and by node 'first' (Relu)"),
    ],
)
def test_both_makers_of_a_tensor_are_told_apart(names: tuple[str, str], told: str) -> None:
    proto = model([n("Relu", ["x"], ["y"], names[0]), n("Abs", ["x"], ["y"], names[1])], {"x": [1, 4]}, {"y": [1, 4]})
    with pytest.raises(UserError) as caught:
        sort_nodes(proto.graph, PATH)
    assert str(caught.value) == f"net.onnx: E0903 the tensor 'y' {told}"


def test_sizes_past_32_bits_are_refused_and_others_are_not() -> None:
    for name, value in (("strides", [1, 1 << 31]), ("pads", [-(1 << 40), 0]), ("axis", 1 << 32), ("group", (1 << 32) + 1)):
        node = n("Conv", ["x"], ["y"], "c", **{name: value})
        with pytest.raises(UserError, match=rf"net.onnx: E0908 node 'c' \(Conv\): '{name}' has -?\d+; at most 2147483647 either way"):
            check_sizes(helper.make_graph([node], "g", [], []), PATH)
    largest = n("Conv", ["x"], ["y"], "c", strides=[(1 << 31) - 1])
    other = n("Slice", ["x"], ["y"], "s", ends=[(1 << 63) - 1], starts=[0])
    foreign = helper.make_node("Own", ["x"], ["y"], "o", domain="some.where", strides=[1 << 40])
    check_sizes(helper.make_graph([largest, other, foreign], "g", [], []), PATH)
