"""Local functions: what they compute stays, and what would never end is refused before anything is written out."""

import time

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.imported import normal, run
from tests.graph.onnx_builder import PATH, model, n
from toolchain.graph.importing import inlining
from toolchain.graph.importing.inlining import inline_functions
from toolchain.spec.errors import UserError


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    """From `a` to `b`."""
    return helper.make_function("mine", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)])


def call(name: str, source: str, result: str) -> onnx.NodeProto:
    return n(name, [source], [result], domain="mine")


def with_functions(*functions: onnx.FunctionProto) -> onnx.ModelProto:
    """Calls the last of them."""
    proto = model([call(functions[-1].name, "x", "y")], {"x": [4]}, {"y": None})
    proto.functions.extend(functions)
    proto.opset_import.add(domain="mine", version=1)
    return proto


def doubling(depth: int) -> onnx.ModelProto:
    """Each function calls the one before it twice."""
    first = function("f0", n("Neg", ["a"], ["b"]))
    return with_functions(first, *(function(f"f{k}", call(f"f{k - 1}", "a", "t"), call(f"f{k - 1}", "t", "b")) for k in range(1, depth)))


def test_functions_of_functions_compute_the_same() -> None:
    inner = function("inner", n("Exp", ["a"], ["t"]), n("Add", ["a", "t"], ["b"]))
    proto, x = (
        with_functions(inner, function("outer", call("inner", "a", "t"), n("Mul", ["a", "t"], ["u"]), call("inner", "u", "b"))),
        {"x": normal(0, 4)},
    )
    result = inline_functions(proto, PATH)
    assert not result.functions
    assert [node.op_type for node in result.graph.node] == ["Exp", "Add", "Mul", "Exp", "Add"]
    np.testing.assert_array_equal(run(result, x)["y"], run(proto, x)["y"])


def test_a_model_without_functions_is_left_alone() -> None:
    proto = model([n("Relu", ["x"], ["y"])], {"x": [4]}, {"y": None})
    assert inline_functions(proto, PATH) is proto


def test_the_bound_is_of_nodes_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlining, "MAX_NODES", 128)
    assert len(inline_functions(doubling(8), PATH).graph.node) == 128
    with pytest.raises(UserError, match=r"^net.onnx: E0922 written out, the model's functions make more than 128 nodes"):
        inline_functions(doubling(9), PATH)


def test_a_bomb_is_refused_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(UserError, match="E0922"):
        inline_functions(doubling(60), PATH)
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize("through", [0, 2])
def test_a_function_that_calls_itself_is_named(through: int) -> None:
    ring = [function(f"f{k}", call(f"f{(k + 1) % (through + 1)}", "a", "b")) for k in range(through + 1)]
    with pytest.raises(UserError, match=r"^net.onnx: E0903 the function 'f\d' calls itself, in node 'b' \(mine.f\d\)"):
        inline_functions(with_functions(*ring), PATH)


def test_a_call_inside_a_subgraph_counts() -> None:
    """A recursion through the body of an If."""
    body = helper.make_graph([call("f", "a", "r")], "g", [], [onnx.ValueInfoProto(name="r")])
    looping = function(
        "f", n("ReduceSum", ["a"], ["s"], keepdims=0), n("Greater", ["s", "s"], ["c"]), n("If", ["c"], ["b"], then_branch=body, else_branch=body)
    )
    with pytest.raises(UserError, match="E0903 the function 'f' calls itself"):
        inline_functions(with_functions(looping), PATH)
