"""Bodies of conditions and loops, at any depth."""

import onnx
from onnx import TensorProto, helper

from tests.graph.onnx_builder import n
from toolchain.graph.nodes.subgraphs import all_nodes, called_functions, own_names, replace_nodes, subgraphs, tensor_shapes


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
