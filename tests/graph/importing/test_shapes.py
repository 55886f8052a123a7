"""Operands that do not fit are told with node and shapes; what ONNX Runtime runs is taken, whatever strict inference says.

Open dimensions: all of them told at once, one by its own key or several by a shared name.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import PATH, model, n
from toolchain.graph.importing.shapes import check_operands, fix_dims, open_axes
from toolchain.spec.errors import UserError


def two_inputs(**shapes: list[int | str | None]) -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", "z"], ["y"])], shapes, {"y": None})


def sizes(proto: onnx.ModelProto) -> dict[str, list[int]]:
    return {entry.name: [dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in proto.graph.input}


def dims_refusal(proto: onnx.ModelProto, **dims: int) -> str:
    with pytest.raises(UserError) as caught:
        fix_dims(proto, {name.replace("__", "."): size for name, size in dims.items()}, PATH)
    return str(caught.value)


axes = st.lists(st.one_of(st.integers(1, 9), st.none(), st.sampled_from(["batch", "height"])), min_size=1, max_size=4)


@given(axes, axes, st.integers(1, 9), st.booleans())
def test_every_axis_has_a_size_afterwards_and_none_that_had_one_changes(
    x: list[int | str | None], z: list[int | str | None], size: int, named: bool
) -> None:
    proto = two_inputs(x=x, z=z)
    found = open_axes(proto.graph)
    assert [axis.key for axis in found] == [
        f"{name}.{k}" for name, shape in (("x", x), ("z", z)) for k, each in enumerate(shape) if type(each) is not int
    ]
    dims = {axis.name if named and axis.name else axis.key: size for axis in found}
    fix_dims(proto, dims, PATH)
    assert sizes(proto) == {name: [each if type(each) is int else size for each in shape] for name, shape in (("x", x), ("z", z))}
    assert open_axes(proto.graph) == []


def test_an_axis_of_its_own_wins_over_its_name() -> None:
    proto = two_inputs(x=["batch", 3], z=["batch", 3])
    fix_dims(proto, {"batch": 1, "z.0": 7}, PATH)
    assert sizes(proto) == {"x": [1, 3], "z": [7, 3]}


def test_all_that_are_missing_are_told_at_once() -> None:
    told = dims_refusal(two_inputs(x=["batch", None, 3], z=["batch", "height"]), batch=1)
    assert told == (
        "net.onnx: E0904 sizes are open: dimension 1 of the input 'x' (unnamed), dimension 1 of the input 'z' ('height'); "
        "give each one, such as dim=x.1:1,height:1"
    )


def test_a_zero_of_the_file_is_an_open_size_until_the_user_means_it() -> None:
    proto = two_inputs(x=[0, 3], z=[1, 3])
    assert dims_refusal(proto) == (
        "net.onnx: E0904 sizes are open: dimension 0 of the input 'x' (0 in the file, which exporters write for an open size); "
        "give it one, such as dim=x.0:1, or x.0:0 where it has no elements"
    )
    fix_dims(proto, {"x.0": 0}, PATH)
    assert sizes(proto)["x"] == [0, 3]


def test_several_axes_of_one_name_have_no_elements_one_by_one() -> None:
    told = dims_refusal(two_inputs(x=["n", 3], z=["n", 3]), n=0)
    assert told == "net.onnx: E0904 dimension 'x.0' cannot be 0; a size is at least 1; an axis without elements is named by itself: dim=x.0:0"


def test_a_name_of_several_axes_is_asked_for_by_axis() -> None:
    assert dims_refusal(two_inputs(x=["n", 3], z=["n", 3])).endswith("give each one, such as dim=x.0:1,z.0:1")


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({"bach": 1, "batch": 1}, "E0905 no dimension of the inputs is called 'bach'; did you mean 'batch'?"),
        ({"x__1": 1, "batch": 1}, "E0905 no dimension of the inputs is called 'x.1'"),
        ({"batch": 0}, "E0904 dimension 'x.0' cannot be 0; a size is at least 1"),
        ({"batch": 1 << 31}, "E0904 the input 'x' of shape 2147483648x3 has more than 67108864 elements"),
    ],
)
def test_sizes_that_cannot_be(dims: dict[str, int], words: str) -> None:
    assert words in dims_refusal(two_inputs(x=["batch", 3], z=[1, 3]), **dims)


def test_a_constant_that_is_an_input_too_has_no_open_axis() -> None:
    proto = two_inputs(x=[1, 3], z=["batch", 3])
    proto.graph.initializer.add(name="z", dims=[1, 3], data_type=1, raw_data=bytes(12))
    assert open_axes(proto.graph) == []


def test_a_constant_may_be_larger_than_any_input() -> None:
    proto = two_inputs(x=[1 << 14, 1 << 14], z=[1, 1])
    fix_dims(proto, {}, PATH, constants={"x"})
    assert dims_refusal(proto).startswith("net.onnx: E0904 the input 'x'")


SIZES = st.integers(1, 4)


@settings(max_examples=30, deadline=None)
@given(SIZES, SIZES, SIZES, SIZES, SIZES)
def test_a_convolution_is_refused_where_onnx_runtime_cannot_run_it(channels: int, filters: int, per_group: int, group: int, bias: int) -> None:
    shapes = {"x": (1, channels, 3, 3), "w": (filters, per_group, 1, 1), "b": (bias,)}
    node = n("Conv", ["x", "w", "b"], ["y"], "c", group=group)
    constants = {name: normal(0, *shapes[name]) for name in "wb"}
    try:
        run(model([node], {"x": shapes["x"]}, {"y": None}, constants), {"x": np.ones(shapes["x"], np.float32)})
        runs = True
    except UserError:
        runs = False
    try:
        check_operands(node, shapes, PATH)
        taken = True
    except UserError:
        taken = False
    assert taken == runs


@pytest.mark.parametrize(
    ("node", "shapes", "words"),
    [
        (n("Gemm", ["a", "b"], ["y"], "g"), {"a": (2, 3), "b": (4, 5)}, "node 'g' (Gemm): inner sizes 3 and 4 differ (operands 'a' 2x3, 'b' 4x5)"),
        (n("Gemm", ["a", "b"], ["y"], "g", transA=1, transB=1), {"a": (2, 3), "b": (4, 5)}, "inner sizes 2 and 5 differ"),
        (n("BatchNormalization", ["x", *"stmv"], ["y"], "n"), {"x": (1, 3, 2, 2), **dict.fromkeys("stm", (3,)), "v": (4,)}, "a parameter of shape 4"),
        (n("Conv", ["x", "w", "b"], ["y"], "c"), {"x": (1, 3, 4, 4), "w": (2, 3, 1, 1), "b": (2, 1)}, "bias of shape 2x1 does not fit 2 channels"),
    ],
)
def test_what_is_said(node: object, shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(UserError) as caught:
        check_operands(node, shapes, PATH)  # type: ignore[arg-type]
    assert str(caught.value).startswith("net.onnx: E0907 node")
    assert words in str(caught.value)


@pytest.mark.parametrize("left", [(3,), (1, 2, 3)])
def test_a_gemm_of_no_matrices(left: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"E0907 node .g. .Gemm.: its operands are no matrices"):
        check_operands(n("Gemm", ["a", "b"], ["y"], "g"), {"a": left, "b": (3, 4)}, PATH)


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_a_pool_without_a_window_never_reaches_onnx_runtime(kind: str, ceil: int, tmp_path: Path) -> None:
    """It would end the process: a signal, no exception."""
    node = n(kind, ["x"], ["y"], "p", kernel_shape=[2, 3], strides=[1, 2], ceil_mode=ceil)
    with pytest.raises(UserError, match=r"E0907 node 'p' \(.*Pool\): its window is larger than the picture with its padding \(operands 'x' 1x16x1x5"):
        imported(tmp_path, [node], (1, 16, 1, 5))


def test_a_window_of_countless_elements() -> None:
    node = n("AveragePool", ["x"], ["y"], "p", kernel_shape=[1 << 20, 1 << 20], pads=[1 << 19] * 4)
    with pytest.raises(UserError, match=r"E0907 node 'p' \(AveragePool\): a window of 1099511627776 elements; 16777216 at most"):
        check_operands(node, {"x": (1, 3, 8, 8)}, PATH)


@pytest.mark.parametrize("shapes", [{"x": None, "w": (2, 3, 1, 1)}, {"x": (1, None, 4, 4), "w": (2, 3, 1, 1)}, {"w": (2, 3, 1, 1)}])
def test_unknown_shapes_pass(shapes: dict[str, tuple[int | None, ...] | None]) -> None:
    check_operands(n("Conv", ["x", "w"], ["y"], "c", group=2), shapes, PATH)


def test_operators_of_other_domains_pass() -> None:
    check_operands(n("Conv", ["x", "w"], ["y"], "c", domain="mine"), {"x": (1, 3, 4, 4), "w": (2, 4, 1, 1)}, PATH)


WRONG = {
    "sizes of a sum": ([n("Add", ["x", "k"], ["y"], "s")], {"k": np.ones((1, 5), F)}, "node 's' (Add): Incompatible dimensions (operands 'x' 2x3, "),
    "a concat": ([n("Concat", ["x", "k"], ["y"], "joined", axis=1)], {"k": np.ones((3, 3), F)}, "node 'joined' (Concat): "),
    "a product": ([n("MatMul", ["x", "k"], ["y"], "product")], {"k": np.ones((4, 3), F)}, "node 'product' (MatMul): Incompatible dimensions"),
    "in the middle": ([n("Relu", ["x"], ["a"]), n("Mul", ["a", "k"], ["b"], "m"), n("Neg", ["b"], ["y"])], {"k": np.ones(7, F)}, "node 'm' (Mul): "),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_the_node_that_does_not_fit(case: str, tmp_path: Path) -> None:
    nodes, constants, words = WRONG[case]
    with pytest.raises(UserError) as caught:
        imported(tmp_path, nodes, (2, 3), constants)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'net.onnx'}: E0907 {words}")
    assert "\n" not in text


def test_shapes_that_depend_on_the_data_are_taken(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("NonZero", ["x"], ["a"]), n("Cast", ["a"], ["y"], to=1)], (2, 3))
    assert [node.outputs[0].shape is not None and node.outputs[0].shape.is_static() for node in graph.graph] == [False, False]
