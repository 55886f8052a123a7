"""Bodies of conditions and loops, at any depth."""

import onnx
from onnx import helper

from toolchain.graph.subgraphs import all_nodes, subgraphs

n = helper.make_node


def body(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, "g", [], [])


def test_every_body_of_a_node_and_every_node_of_a_body() -> None:
    inner = n("If", ["c"], ["t"], "inner", then_branch=body(n("Abs", [], [], "deep")), else_branch=body())
    outer = n("If", ["c"], ["y"], "outer", then_branch=body(n("Neg", [], [], "a"), inner), else_branch=body(n("Exp", [], [], "b")))
    listed = n("Custom", [], [], "listed", bodies=[body(n("Sin", [], [], "c")), body(n("Cos", [], [], "d"))])
    assert [len(subgraphs(node)) for node in (outer, inner, listed, n("Relu", ["x"], ["y"], alpha=1))] == [2, 2, 2, 0]
    assert [node.name for node in all_nodes([outer, listed])] == ["outer", "b", "a", "inner", "deep", "listed", "c", "d"]  # attributes by name
