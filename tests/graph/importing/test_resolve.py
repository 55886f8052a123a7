"""Shapes come from the operators, never from what the file declares; inference and folding go on until neither finds anything more.

Pools that round up, written as pools that divide evenly: ONNX Runtime computes the same with both, and both have the size that inference says.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import model, n
from toolchain.graph.importing.load import load_graph
from toolchain.graph.importing.resolve import (
    Axis,
    declare_types,
    infer_partly,
    inline_branches,
    resolve_shapes,
    strict_complaint,
    tensor_shapes,
    write_scalars,
    write_windows,
)
from toolchain.graph.nodes import all_nodes
from toolchain.graph.rewrite import shape_of
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.spec.errors import UserError


def pool(kind: str, size: Sequence[int], **attributes: object) -> onnx.ModelProto:
    return model([n(kind, ["x"], ["y"], "p", **attributes)], {"x": [1, 2, *size]}, {"y": None})


def rewritten(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    assert write_windows(copy.graph, tensor_shapes(copy))
    assert not write_windows(copy.graph, tensor_shapes(copy))
    return copy


def an_axis(data: st.DataObject) -> tuple[int, int, int, int, int, int]:
    """Size, kernel, stride, dilation, begin and end padding of a window that ONNX Runtime takes, rounded up or not."""
    kernel, stride, dilation = (data.draw(st.integers(1, most)) for most in (4, 4, 2))
    begin, end = (data.draw(st.integers(0, kernel - 1)) for _ in range(2))  # it refuses longer ones
    reach = (kernel - 1) * dilation + 1
    size = data.draw(st.integers(max(reach - begin - end, 1), 9))
    if dilation > 1 and Axis(size, reach, stride, begin, end).needed >= kernel:
        dilation = 1
    return size, kernel, stride, dilation, begin, end


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), st.integers(0, 1), st.data())
def test_results_and_sizes_stay(kind: str, include: int, data: st.DataObject) -> None:
    size, kernel, strides, dilations, begin, end = zip(an_axis(data), an_axis(data), strict=True)
    extra = {"count_include_pad": include} if kind == "AveragePool" else {}
    proto = pool(kind, size, kernel_shape=kernel, strides=strides, dilations=dilations, pads=[*begin, *end], ceil_mode=1, **extra)
    x = {"x": normal(0, 1, 2, *size)}
    result = rewritten(proto)
    wanted, found = run(proto, x)["y"], run(result, x)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert tensor_shapes(infer_partly(result))["y"] == wanted.shape


def test_windows_that_begin_behind_the_picture_are_not_counted() -> None:
    assert Axis(size=5, reach=2, stride=3, begin=0, end=0).count == 2
    assert Axis(size=5, reach=3, stride=2, begin=1, end=2).count == 3  # of 4 when rounded up: the last would begin at pixel 6 of 5 and 1
    assert Axis(size=5, reach=3, stride=2, begin=1, end=0).needed == 1


def test_automatic_padding_is_left_to_whoever_reads_it() -> None:
    proto = pool("MaxPool", [5, 5], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER")
    assert not write_windows(proto.graph, tensor_shapes(proto))


def test_the_size_with_automatic_padding_is_not_rounded_up_again() -> None:
    """A stride beyond the kernel: ONNX's inference had five rows where ONNX Runtime makes four."""
    proto = pool("AveragePool", [8, 5], kernel_shape=[1, 4], strides=[2, 2], auto_pad="SAME_LOWER", ceil_mode=1, count_include_pad=1)
    wanted = run(proto, {"x": normal(0, 1, 2, 8, 5)})["y"].shape
    assert wanted == tensor_shapes(infer_partly(rewritten(proto)))["y"] == (1, 2, 4, 3)


def test_padding_as_long_as_the_kernel_is_never_written() -> None:
    proto = pool("MaxPool", [6, 6], kernel_shape=[2, 2], strides=[3, 3], dilations=[4, 4], ceil_mode=1)
    assert Axis(6, 5, 3, 0, 0).needed == 2
    assert not write_windows(proto.graph, tensor_shapes(proto))


@pytest.mark.parametrize(
    "attributes",
    [{"strides": [0, 1]}, {"kernel_shape": [2]}, {"pads": [1]}, {"dilations": [1, 0]}],
)
def test_attributes_that_do_not_fit_are_left_to_inference(attributes: dict[str, object], tmp_path: Path) -> None:
    given = {"kernel_shape": [2, 2], "ceil_mode": 1} | attributes
    with pytest.raises(UserError, match="E09"):
        imported(tmp_path, [n("MaxPool", ["x"], ["y"], "p", **given)], (1, 2, 5, 5))


def test_a_picture_of_unknown_size_is_left_alone() -> None:
    proto = pool("MaxPool", [5, 5], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    assert not write_windows(proto.graph, {"x": (1, 2, None, 5)})


@pytest.mark.parametrize("count", [0, 1])
def test_zeros_that_count_are_written_where_windows_reach_further(count: int) -> None:
    proto = pool("AveragePool", [5, 5], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1, count_include_pad=count)
    assert [node.op_type for node in rewritten(proto).graph.node] == (["Pad", "AveragePool"] if count else ["AveragePool"])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["SAME_UPPER", "SAME_LOWER"]), st.data())
def test_automatic_padding_with_output_padding_is_onnx_runtimes(mode: str, data: st.DataObject) -> None:
    """Inference adds the output padding to the size, ONNX Runtime does not."""
    axes = [[data.draw(st.integers(1, most)) for most in (7, 5, 3, 2)] for _ in range(2)]
    size, kernel, strides, dilations = zip(*axes, strict=True)
    more = [data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(strides, dilations, strict=True)]
    attributes = {"strides": strides, "dilations": dilations, "output_padding": more, "auto_pad": mode}
    proto = model([n("ConvTranspose", ["x", "w"], ["y"], **attributes)], {"x": [1, 2, *size]}, {"y": None}, {"w": normal(1, 2, 3, *kernel)})
    x = {"x": normal(0, 1, 2, *size)}
    try:
        (wanted,) = run(proto, x).values()
    except UserError:
        return  # it refuses an output padding that is not below the stride
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    assert write_windows(copy.graph, tensor_shapes(copy)) == any(more)
    (found,) = run(copy, x).values()
    np.testing.assert_array_equal(found, wanted)
    assert tensor_shapes(infer_partly(copy))["y"] == wanted.shape


def vendor(*nodes: onnx.NodeProto, output: str) -> onnx.ModelProto:
    proto = model(nodes, {"x": [1, 4]}, {output: None})
    proto.opset_import.add(domain="com.microsoft", version=1)
    proto.graph.output[0].ClearField("type")
    return infer_partly(proto)


def types(proto: onnx.ModelProto) -> dict[str, tuple[int, list[int]]]:
    entries = (*proto.graph.value_info, *proto.graph.output)
    return {entry.name: (entry.type.tensor_type.elem_type, [dim.dim_value for dim in entry.type.tensor_type.shape.dim]) for entry in entries}


def test_operators_of_a_vendor() -> None:
    first, last = n("Gelu", ["x"], ["a"], domain="com.microsoft"), n("QuickGelu", ["a"], ["y"], domain="com.microsoft")
    proto = vendor(first, n("Cast", ["a"], ["b"], to=TensorProto.DOUBLE), last, output="y")
    assert declare_types(proto)
    assert types(infer_partly(proto)) == {"a": (TensorProto.FLOAT, [1, 4]), "b": (TensorProto.DOUBLE, [1, 4]), "y": (TensorProto.FLOAT, [1, 4])}
    assert not declare_types(proto)


def test_nothing_is_missing() -> None:
    proto = infer_partly(model([n("Relu", ["x"], ["y"])], {"x": [1, 4]}, {"y": None}))
    before = proto.SerializeToString()
    assert not declare_types(proto)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("node", [n("NoSuch", ["x"], ["y"], domain="com.microsoft"), n("SequenceConstruct", ["x"], ["y"])])
def test_what_is_refused_or_no_tensor_stays_as_it_is(node: onnx.NodeProto) -> None:
    proto = vendor(node, output="y")
    before = types(proto)
    assert not declare_types(proto)
    assert types(proto) == before


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


def test_wrong_declarations_are_only_hints() -> None:
    proto = model([n("Relu", ["x"], ["t"]), n("Flatten", ["t"], ["y"])], {"x": [2, 3, 4]}, {"y": [7, "n"]})
    proto.graph.value_info.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [9, 9]))
    shapes = tensor_shapes(resolve_shapes(proto))
    assert (shapes["t"], shapes["y"]) == ((2, 3, 4), (2, 12))


def test_folding_and_inference_take_turns() -> None:
    """The second Reshape's target is known only once the first one's shape is, and an If hangs on it."""
    part = [n("Constant", [], ["q"], value_float=2.0), n("Mul", ["b", "q"], ["r"])]
    branch = helper.make_graph(part, "g", [], [onnx.ValueInfoProto(name="r")])
    nodes = [
        n("Shape", ["x"], ["s"]),
        n("Slice", ["s", "zero", "one"], ["first"]),
        n("Concat", ["first", "minus"], ["to"], axis=0),
        n("Reshape", ["x", "to"], ["a"]),
        n("Shape", ["a"], ["t"]),
        n("Gather", ["t", "last"], ["width"]),
        n("Equal", ["width", "twelve"], ["is"]),
        n("Transpose", ["a"], ["b"]),
        n("If", ["is"], ["y"], then_branch=branch, else_branch=branch),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "minus": np.array([-1]), "last": np.array(1), "twelve": np.array(12)}
    proto, x = model(nodes, {"x": [2, 3, 4]}, {"y": None}, constants), {"x": normal(0, 2, 3, 4)}
    wanted = run(proto, x)["y"]
    result = resolve_shapes(proto)
    assert [node.op_type for node in result.graph.node] == ["Reshape", "Transpose", "Mul", "Identity"]
    assert tensor_shapes(result)["y"] == (12, 2)
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


def test_what_depends_on_the_data_stays_open() -> None:
    proto = model([n("NonZero", ["x"], ["i"]), n("Cast", ["i"], ["y"], to=1)], {"x": [3]}, {"y": None})
    assert tensor_shapes(resolve_shapes(proto))["y"] == (1, None)


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 9), st.integers(1, 2), st.integers(0, 2), st.booleans())
def test_sizes_behind_a_pool_that_rounds_up_are_those_of_onnx_runtime(size: int, begin: int, end: int, shape: bool) -> None:
    """ONNX's inference counts windows that ONNX Runtime leaves out; neither a shape nor a constant of it may remain."""
    nodes = [
        n("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[begin, begin, end, end], ceil_mode=1),
        n("Relu", ["p"], ["q"]),
        n("Shape", ["q"], ["s"]),
        *([n("Cast", ["s"], ["y"], to=1)] if shape else [n("Identity", ["q"], ["y"])]),
    ]
    proto, x = model(nodes, {"x": [1, 1, size, size]}, {"y": None}), {"x": normal(0, 1, 1, size, size)}
    wanted = run(proto, x)["y"]
    result = resolve_shapes(proto)
    np.testing.assert_array_equal(run(result, x)["y"], wanted)
    assert tensor_shapes(result)["y"] == wanted.shape


def test_results_of_operators_outside_the_standard_have_type_and_shape() -> None:
    """A vendor's operator between two of ONNX's; the pool after it rounds up, so all shapes are looked for again."""
    nodes = [
        n("Gelu", ["x"], ["g"], domain="com.microsoft"),
        n("MaxPool", ["g"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 2, 2], ceil_mode=1),
        n("Flatten", ["p"], ["y"]),
    ]
    proto = model(nodes, {"x": [1, 2, 5, 5]}, {"y": None})
    proto.opset_import.add(domain="com.microsoft", version=1)
    shapes = tensor_shapes(resolve_shapes(proto))
    assert (shapes["g"], shapes["p"], shapes["y"]) == ((1, 2, 5, 5), (1, 2, 3, 3), (1, 18))


def test_strict_inference_tells_what_does_not_fit() -> None:
    good, bad = (model([n("Add", ["x", "k"], ["y"])], {"x": [2, 3]}, {"y": None}, {"k": np.zeros(size, F)}) for size in (3, 4))
    assert strict_complaint(good) == ""
    assert "Incompatible dimensions" in strict_complaint(bad)


def test_an_imported_graph_has_every_shape(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Conv", ["x", "w"], ["c"]), n("GlobalAveragePool", ["c"], ["y"])], constants={"w": np.ones((2, 3, 3, 3), F)})
    assert [shape_of(node.outputs[0]) for node in graph.graph] == [(1, 2, 2, 2), (1, 2, 1, 1)]


def ranged(shape: list[int]) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("start", "limit", "delta")]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, [None])
    graph = helper.make_graph([helper.make_node("Range", ["start", "limit", "delta"], ["y"], "range")], "g", ends, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("shape", [[], [1]])
def test_operands_with_one_element(shape: list[int], tmp_path: Path) -> None:
    onnx.save(ranged(shape), tmp_path / "range.onnx")
    given = {name: np.full(shape, value, np.int64) for name, value in (("start", 2), ("limit", 9), ("delta", 3))}
    found = run_session(open_model(load_graph(tmp_path / "range.onnx")), given)
    assert found["y"].tolist() == [2, 5, 8]


def test_scalars_stay_as_they_are() -> None:
    graph = ranged([]).graph
    assert not write_scalars(graph, {"start": (), "limit": (), "delta": ()})
    assert len(graph.node) == 1


def test_only_what_has_one_axis_is_changed() -> None:
    graph = ranged([]).graph
    assert write_scalars(graph, {"start": (1,), "limit": (), "delta": None})
    assert [node.op_type for node in graph.node] == ["Squeeze", "Range"]
    assert list(graph.node[1].input) == [graph.node[0].output[0], "limit", "delta"]
