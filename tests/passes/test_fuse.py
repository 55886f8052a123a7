"""Fusion: results stay, every node is fused or says why not, and templates that make no sense are refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph.onnx_builder import conv_net, model, n, save
from tests.passes.test_fold import PASSES
from tests.reasons import said
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import REASON
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.passes.build import build_graph, calibration_table
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import run_passes
from toolchain.passes.templates import read_templates
from toolchain.spec.errors import Source
from toolchain.spec.model.quantisation import Numerics

X = {"x": [1, 4, 9, 11]}


def fused(nodes: list, inputs: dict, constants: dict, folder: Path, opset: int = 21) -> tuple[list[str], list[str]]:
    """Operators and reasons after fusing, having checked that results stay."""
    proto = model(nodes, inputs, {"y": None}, constants, opset)
    path = save(proto, folder)
    result = run_passes(load_graph(path), [*PASSES, Fuse()], Context(str(path)))
    stage = Store(folder / "out").save("fused", result)
    x = {name: np.random.default_rng(2).normal(size=shape).astype(np.float32) for name, shape in inputs.items()}
    found, wanted = (run_session(open_session(file, optimise=False), x)["y"] for file in (stage, path))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    return [node.op_type for node in result.graph], [said(node) for node in result.graph if REASON in node.metadata_props]


def test_a_network(tmp_path: Path) -> None:
    result = run_passes(load_graph(save(conv_net(), tmp_path), {"batch": 1}), [*PASSES, Fuse()], Context())
    assert [node.op_type for node in result.graph] == ["conv2d__relu", "max_pool", "conv2d", "add__relu", "flatten", "dense"]


def test_an_output_that_no_input_changes_stays_on_the_host(tmp_path: Path) -> None:
    """Its operand has no range: calibration looks at what is computed."""
    proto = model(
        [n("Conv", ["k", "w"], ["y"], "still"), n("Relu", ["x"], ["z"])], X, {"y": None, "z": None}, {"w": W, "k": np.ones((1, 4, 9, 11), F)}
    )
    result = run_passes(load_graph(save(proto, tmp_path)), [*PASSES, Fuse()], Context())
    assert [(node.op_type, said(node)) for node in result.graph if node.name == "still"] == [("Conv", "it computes with constants alone")]


@pytest.mark.parametrize("empty", ["slice", "matrix"])
def test_operators_without_elements_stay_on_the_host(empty: str, tmp_path: Path) -> None:
    """Slices of nothing, and products with a matrix without columns."""
    nodes = {
        "slice": [n("Conv", ["x", "w"], ["c"], "conv"), n("Slice", ["c", "zero", "zero", "axis"], ["s"], "none"), n("Relu", ["s"], ["y"], "empty")],
        "matrix": [n("Reshape", ["x", "shape"], ["m"]), n("MatMul", ["m", "wide"], ["y"], "empty")],
    }
    constants = {"w": W, "zero": np.array([0]), "axis": np.array([2]), "wide": np.zeros((11, 0), F), "shape": np.array([36, 11])}
    result = run_passes(load_graph(save(model(nodes[empty], X, {"y": None}, constants), tmp_path)), [*PASSES, Fuse()], Context())
    assert [said(node) for node in result.graph if node.name == "empty"] == ["a tensor of it has no elements"]


F = np.float32
W = np.random.default_rng(5).normal(size=(4, 4, 3, 3)).astype(F)
ACTIVE = {
    "relu": ([n("Relu", ["t"], ["y"])], {}, ["conv2d__relu"]),
    "relu6": ([n("Clip", ["t", "lo", "hi"], ["y"])], {"lo": F(0), "hi": F(6)}, ["conv2d__clip"]),
    "clip from zero": ([n("Clip", ["t", "lo"], ["y"])], {"lo": F(0)}, ["conv2d__relu"]),
    "leaky": ([n("LeakyRelu", ["t"], ["y"], alpha=0.1)], {}, ["conv2d__leaky"]),
    "clip without zero": ([n("Clip", ["t", "lo", "hi"], ["y"])], {"lo": F(1), "hi": F(6)}, ["conv2d", "Clip"]),
    "two readers": ([n("Relu", ["t"], ["u"]), n("Add", ["t", "u"], ["y"])], {}, ["conv2d", "average_pool__relu", "add"]),
}


@pytest.mark.parametrize("case", ACTIVE)
def test_activations(case: str, tmp_path: Path) -> None:
    nodes, constants, wanted = ACTIVE[case]
    kinds, _ = fused([n("Conv", ["x", "w"], ["t"]), *nodes], X, {"w": W} | constants, tmp_path)
    assert kinds == wanted


def test_indices_of_a_pool_that_are_a_result_keep_it_as_it_is(tmp_path: Path) -> None:
    proto = model([n("MaxPool", ["x"], ["y", "i"], "pool", kernel_shape=[2, 2])], X, {"y": None}, {})
    proto.graph.output.append(helper.make_tensor_value_info("i", 7, None))
    (node,) = run_passes(load_graph(save(proto, tmp_path)), [*PASSES, Fuse()], Context()).graph
    assert (node.op_type, said(node)) == ("MaxPool", "the indices of the pool are used")


NO_SCALE = "neither operand is a constant with one number for each channel"
BORDER = "the divisor of the average changes at the border"
ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric"}
SINGLE = {
    "batch norm": (n("BatchNormalization", ["x", "v", "v", "v", "v"], ["y"]), {"v": np.arange(1, 5, dtype=F)}, "conv2d"),
    "scale": (n("Mul", ["x", "v"], ["y"]), {"v": np.arange(1, 5, dtype=F).reshape(4, 1, 1)}, "conv2d"),
    "product": (n("Mul", ["x", "x"], ["y"]), {}, "multiply"),
    "same upper": (n("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2]), {"w": W}, "conv2d"),
    "same lower": (n("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[2, 3]), {"w": W}, "conv2d"),
    "groups": (n("Conv", ["x", "w"], ["y"], group=4, dilations=[2, 2]), {"w": W[:, :1]}, "conv2d"),
    "pool up": (n("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), {}, "max_pool"),
    "pool same": (n("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME_UPPER"), {}, "max_pool"),
    "dilated pool": (n("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]), {}, "max_pool"),
    "average": (n("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2]), {}, "average_pool"),
    "dilated average": (n("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[4, 4], dilations=[3, 3]), {}, "average_pool"),
    "average with border": (n("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1), {}, "average_pool"),
    "average without": (n("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {}, BORDER),
    "global": (n("GlobalAveragePool", ["x"], ["y"]), {}, "average_pool"),
    "mean": (n("ReduceMean", ["x", "axes"], ["y"]), {"axes": np.array([2, -1])}, "average_pool"),
    "channel mean": (n("ReduceMean", ["x", "axes"], ["y"]), {"axes": np.array([1])}, "the mean is not over height and width"),
    "resize": (n("Resize", ["x", "", "s"], ["y"], nearest_mode="floor", **ASYMMETRIC), {"s": np.array([1, 1, 2, 3], F)}, "upsample"),
    "resize half": (n("Resize", ["x", "", "s"], ["y"]), {"s": np.array([1, 1, 2, 2], F)}, "upsample"),
    "bilinear": (n("Resize", ["x", "", "s"], ["y"], mode="linear"), {"s": np.array([1, 1, 2, 2], F)}, "the picture is not simply repeated"),
    "pad": (n("Pad", ["x", "p"], ["y"]), {"p": np.array([0, 0, 1, 2, 0, 0, 3, 0])}, "pad"),
    "reflect": (n("Pad", ["x", "p"], ["y"], mode="reflect"), {"p": np.array([0, 0, 1, 2, 0, 0, 3, 0])}, "the padding is not with zeros"),
    "flatten": (n("Reshape", ["x", "t"], ["y"]), {"t": np.array([0, -1])}, "flatten"),
    "reshape": (n("Reshape", ["x", "t"], ["y"]), {"t": np.array([2, -1])}, "the result is not one row for each picture"),
    "head": (n("Reshape", ["x", "t"], ["y"]), {"t": np.array([0, 4, -1])}, "the result is a sequence of rows, not one row for each picture"),
    "relu": (n("Relu", ["x"], ["y"]), {}, "average_pool__relu"),
    "softmax": (n("Softmax", ["x"], ["y"]), {}, "'x' has 4 axes, not 3"),
    "concat": (n("Concat", ["x", "x", "x"], ["y"], axis=1), {}, "concat__3"),
    "stack": (n("Concat", ["x", "x"], ["y"], axis=2), {}, "the concat is not over channels"),
    "broadcast": (n("Add", ["x", "w"], ["y"]), {"w": np.ones((9, 11), F)}, f"'w' is a constant; {NO_SCALE}"),
}  # fmt: skip


@pytest.mark.parametrize("case", SINGLE)
def test_single_operators(case: str, tmp_path: Path) -> None:
    node, constants, wanted = SINGLE[case]
    kinds, reasons = fused([node], X, constants, tmp_path)
    assert wanted in (reasons or kinds)


UP = np.random.default_rng(6).normal(size=(4, 6, 3, 4)).astype(F)
TRANSPOSED: dict[str, tuple[dict[str, object], str]] = {
    "plain": ({"strides": [2, 3]}, "conv_transpose"),
    "padded": ({"strides": [2, 2], "pads": [1, 0, 2, 1], "output_padding": [1, 0]}, "conv_transpose"),
    "dilated": ({"strides": [2, 1], "dilations": [2, 3], "pads": [1, 1, 1, 1]}, "conv_transpose"),
    "same upper": ({"strides": [2, 2], "auto_pad": "SAME_UPPER"}, "conv_transpose"),
    "same lower": ({"strides": [2, 3], "auto_pad": "SAME_LOWER"}, "conv_transpose"),
    "valid": ({"strides": [2, 3], "auto_pad": "VALID"}, "conv_transpose"),
    "size given": ({"strides": [2, 2], "output_shape": [18, 22]}, "conv_transpose"),
    "size given, odd rest": ({"strides": [2, 2], "output_shape": [17, 21], "auto_pad": "SAME_UPPER"}, "conv_transpose"),
    "larger than its taps": ({"strides": [3, 3], "output_shape": [28, 35]}, "the result is larger than its taps reach"),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: str, tmp_path: Path) -> None:
    """Padding follows from the size of the result where that is given, as ONNX Runtime has it."""
    attributes, wanted = TRANSPOSED[case]
    kinds, reasons = fused([n("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)], X, {"w": UP, "b": np.arange(6, dtype=F)}, tmp_path)
    assert wanted in (reasons or kinds)


def test_a_transposed_convolution_takes_its_activation_in_and_stays_in_groups(tmp_path: Path) -> None:
    nodes = [n("ConvTranspose", ["x", "w"], ["t"], strides=[2, 2]), n("LeakyRelu", ["t"], ["y"])]
    assert fused(nodes, X, {"w": UP}, tmp_path) == (["conv_transpose__leaky"], [])
    (tmp_path / "groups").mkdir()
    _, reasons = fused([n("ConvTranspose", ["x", "w"], ["y"], group=2)], X, {"w": UP}, tmp_path / "groups")
    assert reasons == ["the transposed convolution is in groups"]


@pytest.mark.parametrize(("axis", "wanted"), [(1, "the concat puts rows behind rows"), (-1, "concat__2"), (0, "the concat is not over channels")])
def test_sequences_side_by_side(axis: int, wanted: str, tmp_path: Path) -> None:
    """The channels of a sequence [n, rows, channels] are its last axis."""
    kinds, reasons = fused([n("Concat", ["x", "x"], ["y"], axis=axis)], {"x": [1, 8, 16]}, {}, tmp_path)
    assert wanted in (reasons or kinds)


@pytest.mark.parametrize("activation", [n("Relu", ["s"], ["y"]), n("LeakyRelu", ["s"], ["y"], alpha=0.1)])
def test_a_scale_takes_its_activation_in(activation: onnx.NodeProto, tmp_path: Path) -> None:
    known = {"v": np.arange(1, 5, dtype=F).reshape(4, 1, 1)}
    kinds, _ = fused([n("MaxPool", ["x"], ["m"], kernel_shape=[2, 2]), n("Mul", ["m", "v"], ["s"]), activation], X, known, tmp_path)
    assert kinds == ["max_pool", "conv2d__relu" if activation.op_type == "Relu" else "conv2d__leaky"]


@pytest.mark.parametrize("shape", [(5, 1), (1, 1, 5), (2, 1)])
def test_a_bias_that_stands_otherwise_is_none(shape: tuple[int, ...], tmp_path: Path) -> None:
    constants = {"w": np.random.default_rng(0).normal(size=(6, 5)).astype(F), "b": np.arange(np.prod(shape), dtype=F).reshape(shape)}
    kinds, _ = fused(
        [n("MatMul", ["x", "w"], ["t"]), n("Add", ["t", "b"], ["y"])], {"x": [shape[0] if shape[-1] == 1 else 2, 6]}, constants, tmp_path
    )
    assert kinds == ["dense", "Add"]
    if len(shape) == 2:
        kinds, reasons = fused([n("Gemm", ["x", "w", "b"], ["y"])], {"x": [shape[0], 6]}, constants, tmp_path)
        assert (kinds, len(reasons)) == (["Gemm"], 1)


@pytest.mark.parametrize("swap", [False, True])
def test_matmul_and_bias_in_either_order(swap: bool, tmp_path: Path) -> None:
    constants = {"w": np.random.default_rng(0).normal(size=(6, 5)).astype(F), "b": np.ones(5, F)}
    operands = ["b", "t"] if swap else ["t", "b"]
    kinds, _ = fused([n("MatMul", ["x", "w"], ["t"]), n("Add", operands, ["y"])], {"x": [2, 6]}, constants, tmp_path)
    assert kinds == ["dense"]


@pytest.mark.parametrize(("given", "kinds"), [({}, ["gelu"]), ({"approximate": "none"}, ["gelu"]), ({"approximate": "tanh"}, ["Gelu"])])
def test_an_attribute_that_is_left_out_has_the_default_of_onnx(given: dict[str, str], kinds: list[str], tmp_path: Path) -> None:
    assert fused([n("Gelu", ["x"], ["y"], "g", **given)], X, {}, tmp_path)[0] == kinds


def test_attributes_wildcards_and_kept_kinds(tmp_path: Path) -> None:
    templates = read_templates(
        Source(
            "p.yaml",
            "fusion: [{name: a, computes: max_pool, pattern: {op: MaxPool, as: pool, inputs: [x]}, where: [attribute: {pool.storage_order: 1}]}]",
        )
    )
    for mode, wanted in ((1, "max_pool"), (0, "MaxPool")):
        proto = model([n("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], storage_order=mode)], X, {"y": None})
        result = run_passes(load_graph(save(proto, tmp_path)), [Fuse()], Context("", templates))
        assert [node.op_type for node in result.graph] == [wanted]
    result = run_passes(load_graph(save(conv_net(), tmp_path), {"batch": 1}), [*PASSES, Fuse(keep=("add", "max_pool"))], Context())
    assert {node.op_type for node in result.graph if node.domain == ""} == {"Add", "MaxPool"}


def test_a_scale_of_doubles_is_no_convolution(tmp_path: Path) -> None:
    """ONNX Runtime has no convolution of doubles, so the stage would not run."""
    nodes = [n("Cast", ["x"], ["d"], to=11), n("Mul", ["d", "f"], ["m"], "scale"), n("Cast", ["m"], ["y"], to=1)]
    kinds, reasons = fused(nodes, {"x": [1, 3, 4, 4]}, {"f": np.array(2.0)}, tmp_path)
    assert kinds == ["Cast", "Mul", "Cast"]
    assert any("double" in reason for reason in reasons)


SOFT = """
fusion:
  - name: soft
    computes: softmax
    pattern: {op: Softmax, as: soft, inputs: [x]}
"""


def test_stages_in_floating_point_have_no_integers(tmp_path: Path) -> None:
    """A kernel for such an operation changes nothing: nothing says what its integers are."""
    path = save(model([n("Softmax", ["x"], ["y"], "soft")], {"x": [1, 4, 8]}, {"y": [1, 4, 8]}), tmp_path)
    table = calibration_table(path, {}, {"x": np.ones((1, 1, 4, 8), np.float32)})
    templates = read_templates(Source("soft.yaml", SOFT))
    context = Context(str(path), numerics=Numerics(), table=table, policy="all", device=Device("some", lambda _: ()), templates=templates)
    (node,) = build_graph(path, {}, context, Store(tmp_path / "stages")).graph
    assert said(node) == "node 'soft' (softmax) cannot be quantised: its stages compute in floating point, and say nothing of integers"
