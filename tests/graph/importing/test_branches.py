"""An If whose condition is known computes what ONNX Runtime makes of it, and is gone."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.graph.imported import F, normal, run
from tests.graph.onnx_builder import model
from toolchain.graph.importing.branches import inline_branches
from toolchain.graph.nodes.subgraphs import all_nodes

n = helper.make_node


def branch(*nodes: onnx.NodeProto, output: str, constants: dict[str, np.ndarray] | None = None) -> onnx.GraphProto:
    held = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    return helper.make_graph(nodes, "branch", [], [onnx.ValueInfoProto(name=output)], held)


def choice(condition: str, then: onnx.GraphProto, other: onnx.GraphProto, output: str = "y", name: str = "if") -> onnx.NodeProto:
    return n("If", [condition], [output], name, then_branch=then, else_branch=other)


def check(nodes: list[onnx.NodeProto], taken: bool, left: int = 0) -> onnx.ModelProto:
    proto = model(nodes, {"x": [2, 3]}, {"y": None}, {"c": np.array(taken), "three": F(3)})
    feeds = {"x": normal(0, 2, 3)}
    wanted = run(proto, feeds)
    assert inline_branches(proto.graph)
    assert sum(node.op_type == "If" for node in all_nodes(proto.graph.node)) == left
    for name, array in run(proto, feeds).items():
        np.testing.assert_array_equal(array, wanted[name])
    return proto


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_that_is_taken_stands_in_the_graph(taken: bool) -> None:
    then = branch(n("Mul", ["x", "k"], ["t"]), n("Add", ["t", "three"], ["r"]), output="r", constants={"k": F(2)})
    other = branch(n("Neg", ["x"], ["r"]), output="r")
    proto = check([choice("c", then, other)], taken)
    assert [node.op_type for node in proto.graph.node] == (["Mul", "Add", "Identity"] if taken else ["Neg", "Identity"])


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_may_hand_out_a_tensor_of_the_graph(taken: bool) -> None:
    check([n("Relu", ["x"], ["q"]), choice("c", branch(n("Identity", ["q"], ["r"]), output="r"), branch(n("Abs", ["q"], ["r"]), output="r"))], taken)


def test_names_inside_may_be_those_of_another_branch() -> None:
    """Both Ifs make `t` and `r`; written out, no tensor is made twice."""
    inner = branch(n("Exp", ["x"], ["t"]), n("Add", ["t", "t"], ["r"]), output="r")
    first, second = choice("c", inner, inner, "a", "one"), choice("c", inner, inner, "b", "two")
    proto = check([first, second, n("Sub", ["a", "b"], ["y"])], True)
    names = [name for node in proto.graph.node for name in node.output]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("taken", [True, False])
def test_an_if_inside_a_branch_reads_what_the_branch_makes(taken: bool) -> None:
    """The inner one stays for the next round, its reads renamed."""
    inner = choice("d", branch(n("Mul", ["t", "k"], ["u"]), output="u"), branch(n("Neg", ["t"], ["u"]), output="u"), "r", "inner")
    outer = branch(n("ReduceSum", ["x"], ["s"], keepdims=0), n("Greater", ["s", "three"], ["d"]), n("Add", ["x", "x"], ["t"]), inner,
                   output="r", constants={"k": F(5)})  # fmt: skip
    check([choice("c", outer, outer)], taken, left=1)


def test_a_condition_that_is_computed_stays() -> None:
    same = branch(n("Neg", ["x"], ["r"]), output="r")
    nodes = [n("ReduceSum", ["x"], ["s"], keepdims=0), n("Greater", ["s", "s"], ["d"]), choice("d", same, same)]
    proto = model(nodes, {"x": [2, 3]}, {"y": None})
    assert not inline_branches(proto.graph)
    assert [node.op_type for node in proto.graph.node] == ["ReduceSum", "Greater", "If"]
