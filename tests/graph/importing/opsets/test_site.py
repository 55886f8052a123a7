"""The steps that adapters are made of."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.graph.onnx_builder import n
from toolchain.graph.importing.opsets.known import Known
from toolchain.graph.importing.opsets.site import Journey, Names, Site
from toolchain.spec.errors import UserError


def site(**attributes: object) -> Site:
    graph = onnx.GraphProto(input=[onnx.helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [2])])
    graph.input.append(onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [2]))
    names = Names({"x", "y", "o.k"}, frozenset("y"))
    return Site(n("Old", ["x"], ["y"], "o", **attributes), 9, Known(graph, lambda: graph), names, Journey(Path("net.onnx"), 7, 21))


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
