"""Types, shapes and constants as the nodes of a graph and of its subgraphs see them.

The steps that adapters are made of.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, shape_inference

from tests.graph.importing.opset_oracle import build, normal
from tests.graph.onnx_builder import n
from toolchain.graph.importing.opset_site import Journey, KnownTensors, Names, Site, changed, fault, subgraphs
from toolchain.spec.errors import UserError

TWICE = n("Squeeze", ["x"], ["y"], axes=[0])
TWICE.attribute.append(TWICE.attribute[0])


@pytest.mark.parametrize(
    ("node", "version", "text"),
    [
        (n("Squeeze", ["x"], ["y"], axes=[0]), 11, ""),
        (n("Squeeze", ["x", "axes"], ["y"]), 13, ""),
        (n("Squeeze", ["x", "axes"], ["y"]), 11, "2 inputs and 1 outputs do not fit"),
        (n("Squeeze", ["x"], []), 11, "1 inputs and 0 outputs do not fit"),
        (n("Squeeze", [""], ["y"]), 11, "an input that is needed has no name"),
        (n("Squeeze", ["x"], ["y"], axes=0.5), 11, "the attribute 'axes' is no INTS"),
        (n("Squeeze", ["x", "axes"], ["y"], axes=[0]), 13, "the attribute 'axes' does not belong there"),
        (TWICE, 11, "an attribute is given twice"),
        (n("Unsqueeze", ["x"], ["y"]), 11, "the attribute 'axes' is missing"),
        (n("Clip", ["x", "", "high"], ["y"]), 11, ""),
        (n("Concat", ["x"] * 50, ["y"], axis=0), 11, ""),
    ],
)
def test_faults(node: onnx.NodeProto, version: int, text: str) -> None:
    assert fault(node, version) == text


def test_changes() -> None:
    assert changed("Squeeze", 12, 13)
    assert changed("Relu", 13, 21)
    assert not changed("Relu", 14, 21)
    assert not changed("Constant", 1, 21)


def view() -> KnownTensors:
    """A graph with two branches, which have a tensor `p` each."""
    entry = helper.make_empty_tensor_value_info
    stored = numpy_helper.from_array(np.array([1.0, 2.0], np.float32))
    one = helper.make_graph([n("Squeeze", ["r"], ["p"], axes=[0]), n("Relu", ["p"], ["a"])], "one", [], [entry("a")])
    other = helper.make_graph([n("Constant", [], ["p"], value=stored), n("Relu", ["p"], ["b"])], "other", [], [entry("b")])
    nodes = [n("Relu", ["x"], ["r"]), n("If", ["c"], ["y"], then_branch=one, else_branch=other)]
    proto = build(nodes, {"x": normal(0, 1, 3), "c": np.array(True)}, 11, {"k": np.array([[3, 4]])})
    return KnownTensors(proto.graph, lambda: shape_inference.infer_shapes(proto).graph)


def test_types_and_shapes() -> None:
    known = view()
    assert (known.shape("x"), known.shape("r"), known.shape("k"), known.shape("none")) == ((1, 3), (1, 3), (1, 2), None)
    assert (known.type_of("r"), known.type_of("c"), known.type_of("none")) == (onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, 0)


def test_branches_see_their_own_tensors_and_those_around() -> None:
    other, one = view().inner(1, 0), view().inner(1, 1)
    assert [graph.name for graph in subgraphs(view().graph.node[1])] == ["other", "one"]
    assert (one.shape("p"), other.shape("p"), one.shape("r"), view().shape("p")) == ((3,), (2,), (1, 3), None)
    assert one.constant("p") is None
    np.testing.assert_array_equal(other.constant("p"), np.array([1, 2], np.float32))
    np.testing.assert_array_equal(other.constant("k"), np.array([[3, 4]]))


def test_only_numbers_are_numbers() -> None:
    arrays = {"real": np.array([[1.5, 2]]), "text": np.array(["a"], object), "none": np.array([np.nan, 1])}
    proto = build([n("Relu", ["x"], ["y"])], {"x": normal(0, 1)}, 11, arrays)
    known = KnownTensors(proto.graph, lambda: proto.graph)
    assert [known.numbers(name) is None for name in (*arrays, "x", "")] == [False, True, True, True, True]
    np.testing.assert_array_equal(known.numbers("real"), [1.5, 2])


def test_constants_elsewhere_are_not_read() -> None:
    tensor = onnx.TensorProto(name="w", dims=[2], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    graph = onnx.GraphProto(initializer=[tensor])
    known = KnownTensors(graph, lambda: graph)
    assert known.constant("w") is None
    assert known.shape("w") == (2,)


def site(**attributes: object) -> Site:
    graph = onnx.GraphProto(input=[onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [2])])
    graph.input.append(onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [2]))
    names = Names({"x", "y", "o.k"}, frozenset("y"))
    return Site(n("Old", ["x"], ["y"], "o", **attributes), 9, KnownTensors(graph, lambda: graph), names, Journey(Path("net.onnx"), 7, 21))


def test_attributes_are_taken_once() -> None:
    place = site(count=3, real=0.5, list=[1, 2], text="a")
    assert (place.take_int("count", 7), place.take_int("count", 7), place.take_float("real"), place.take_float("real")) == (3, 7, 0.5, None)
    assert (place.take_ints("list"), place.take_ints("list")) == ([1, 2], None)
    assert (place.text("text"), place.text("text"), place.text("none", "b"), place.integer("none", 4)) == ("a", "a", "b", 4)
    place.put(text="c", more=1)
    assert [(attribute.name, attribute.s, attribute.i) for attribute in place.node.attribute] == [("text", b"c", 0), ("more", b"", 1)]


def test_neighbours() -> None:
    place = site()
    before = place.insert("Flatten", ["x"], axis=1)
    inner, outer = place.reroute()
    place.append("Reshape", [inner, before], outer)
    place.wire(before, "", place.whole([1], "k"), "")
    assert [list(node.input) + list(node.output) for node in (*place.before, place.node, *place.after)] == [
        ["x", "o.flatten"],
        ["o.flatten", "", "o.k.1", "o.inner"],
        ["o.inner", "o.flatten", "y"],
    ]
    assert (place.given(1), place.given(2), place.given(3)) == ("", "o.k.1", "")


def test_numbers_have_the_type_of_a_tensor() -> None:
    place = site()
    place.scalar(1.5, "x", "a")
    assert place.scalar(1.5, "unknown", "b") == "o.castlike"
    assert [numpy_helper.to_array(tensor).dtype for tensor in place.constants] == [np.float64, np.float32]
    with pytest.raises(UserError) as caught:
        place.scalar(1.5, "i", "c")
    reason = "no equal form of operator set 7 in 21: the tensor 'i' is not known to hold real numbers"
    assert str(caught.value) == f"net.onnx: E0906 node 'o' (Old): {reason}"


def test_fresh_names() -> None:
    names = Names({"a", "a.1"}, frozenset())
    assert [names.fresh("a"), names.fresh("a"), names.fresh("b"), names.fresh("b")] == ["a.2", "a.3", "b", "b.1"]
