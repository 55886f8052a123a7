"""Orders, names and constants of a graph: whatever is taken can be run, and one tensor has one maker."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.graph.imported import F, normal, run
from tests.graph.onnx_builder import PATH, model, n
from toolchain.graph.nodes.structure import drop_unread, needed, part_names, sort_nodes, unify_constants
from toolchain.spec.errors import UserError


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
