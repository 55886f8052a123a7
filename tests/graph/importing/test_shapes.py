"""Operands that do not fit are told with node and shapes; what ONNX Runtime runs is taken, whatever strict inference says."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import PATH, model, n
from toolchain.graph.importing.shapes import check_operands
from toolchain.spec.errors import UserError

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
