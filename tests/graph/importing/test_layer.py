"""A layer that is being written out knows its operands, results and tensors, and names what it adds after its result."""

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.graph.onnx_builder import n
from toolchain.graph.importing.layer import Facts, Known, Layer

FACTS = Facts({"x": Known(TensorProto.FLOAT, (1, None, 8))}, {"x": "MatMul"}, {"last": np.array([5])})


def layer() -> Layer:
    return Layer(n("Fused", ["x", "", "z"], ["y", "", "sum"], "f", heads=2), FACTS)


def test_operands_and_results() -> None:
    given = layer()
    assert [given.operand(number) for number in range(4)] == ["x", "", "z", ""]
    assert (given.has(1, 3), given.has(1, 2)) == (False, True)
    assert (given.hands_out(1, 3), given.hands_out(1, 2)) == (False, True)
    assert given.given == {"heads": 2}


def test_facts_of_tensors() -> None:
    given = layer()
    assert (given.rank("x"), given.rank("z")) == (3, None)
    assert (given.element_type("x"), given.element_type("z")) == (TensorProto.FLOAT, TensorProto.UNDEFINED)


def test_a_total_leaves_out_tensors_that_are_not_there() -> None:
    given = layer()
    assert given.total(["", "a", ""], "sum") == "a"
    assert not given.nodes
    assert given.total(["a", "", "b", "c"], "sum", "y") == "y"
    assert [(node.op_type, [*node.input], [*node.output]) for node in given.nodes] == [
        ("Add", ["a", "b"], ["y/sum0"]),
        ("Add", ["y/sum0", "c"], ["y"]),
    ]


def test_constants_and_parts_are_called_after_the_result() -> None:
    given = layer()
    assert given.constant("axis", [-1], np.int64) == "y/axis"
    np.testing.assert_array_equal(numpy_helper.to_array(given.constants[0]), [-1])
    given.split("x", ["a", "b"], "halves", -1)
    (node,) = given.nodes
    assert (node.op_type, node.name, [*node.output]) == ("Split", "f/halves", ["a", "b"])
    assert {each.name: each.i for each in node.attribute} == {"axis": -1, "num_outputs": 2}
