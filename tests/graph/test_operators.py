"""ONNX's operators and the defaults of their attributes; bounds of a tensor hold for the results of ONNX Runtime on any input.

A scale and an offset for each channel are what ONNX Runtime computes, or the node is none.

Padding that is written out gives the size and the values of automatic padding, for any window.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.graph.imported import Array, F, imported, normal, run
from tests.graph.onnx_builder import model, n
from toolchain.graph.operators import (
    ANY,
    Interval,
    affine_of,
    attribute_default,
    interval_of,
    known_operators,
    limit,
    limits_of,
    pads_of,
    per_channel,
    repeats,
    rounds_up,
    stored_interval,
    window_of,
)


def test_operators_have_no_foreign_ones_among_them() -> None:
    assert {"Conv", "Gelu"} <= set(known_operators())
    assert "TreeEnsemble" not in known_operators()


@pytest.mark.parametrize(
    ("operator", "name", "value"),
    [("Gelu", "approximate", "none"), ("Conv", "group", 1), ("LeakyRelu", "alpha", pytest.approx(0.01)), ("Conv", "strides", None),
     ("Conv", "nothing", None), ("Nothing", "group", None)],
)  # fmt: skip
def test_an_attribute_that_is_left_out(operator: str, name: str, value: object) -> None:
    assert attribute_default(operator, name) == value


SHAPES = ((3, 1, 1), (1, 3, 1, 1), (1,), (), (1, 1, 1, 1), (1, 1))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(["Mul", "Add", "Sub", "Div"]), st.sampled_from(SHAPES), st.booleans())
def test_a_constant_for_each_channel(tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str, shape: tuple[int, ...], turned: bool) -> None:
    values = np.random.default_rng(seed).uniform(0.5, 2, shape).astype(F)
    graph = imported(tmp_path_factory.mktemp("a"), [n(kind, ["k", "x"] if turned else ["x", "k"], ["y"])], constants={"k": values})
    found = affine_of(next(iter(graph.graph)))
    if turned and kind in ("Sub", "Div"):
        assert found is None
        return
    assert found is not None
    x = normal(seed, 1, 3, 4, 4)
    wanted = run(graph, {"x": x})["y"]
    np.testing.assert_allclose(x * found[1].reshape(3, 1, 1) + found[2].reshape(3, 1, 1), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1])
def test_batch_norm(epsilon: float, tmp_path: Path) -> None:
    constants = {name: np.random.default_rng(number).uniform(0.5, 2, 3).astype(F) for number, name in enumerate("stmv")}
    graph = imported(tmp_path, [n("BatchNormalization", ["x", *"stmv"], ["y"], epsilon=epsilon)], constants=constants)
    found, x = affine_of(next(iter(graph.graph))), normal(0, 1, 3, 4, 4)
    assert found is not None
    np.testing.assert_allclose(x * found[1].reshape(3, 1, 1) + found[2].reshape(3, 1, 1), run(graph, {"x": x})["y"], rtol=1e-5, atol=1e-5)


NONE = {
    "along the width": {"k": np.ones((1, 1, 1, 4), F)},
    "one number a pixel": {"k": np.ones((4, 4), F)},
    "another rank": {"k": np.ones((2, 1, 3, 1, 1), F)},
    "division by zero": {"k": np.array([[[1]], [[0]], [[1]]], F)},
}


@pytest.mark.parametrize("case", NONE)
def test_other_operators_are_none(case: str, tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Div", ["x", "k"], ["y"])], constants=NONE[case])
    assert affine_of(next(iter(graph.graph))) is None


@given(st.sampled_from([(), (1,), (5,), (1, 5), (5, 1), (2, 1), (2, 5), (1, 1, 5)]))
def test_a_vector_along_the_channels_stands_for_the_broadcast_constant(shape: tuple[int, ...]) -> None:
    array: Array = np.arange(1, 1 + int(np.prod(shape)), dtype=F).reshape(shape)
    found = per_channel(array, (2, 5))
    varies = len(shape) == 2 and shape[0] > 1
    assert (found is None) == (varies or len(shape) > 2)
    if found is not None:
        np.testing.assert_array_equal(np.broadcast_to(array, (2, 5)), np.broadcast_to(found, (2, 5)))


Pair = tuple[int, int]
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


def a_size(data: st.DataObject, reach: int, begin: int, end: int) -> int:
    return data.draw(st.integers(max(reach - begin - end, 1), 9))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]), pairs, pairs, pairs, st.data())
def test_a_convolution_with_its_padding_written_out(
    tmp_path_factory: pytest.TempPathFactory, mode: str, kernel: Pair, strides: Pair, dilations: Pair, data: st.DataObject
) -> None:
    if mode.startswith("SAME"):
        dilations = (1, 1)  # ONNX Runtime refuses others
    pads = data.draw(st.tuples(*[st.integers(0, 2)] * 4)) if mode == "NOTSET" else (0, 0, 0, 0)
    size = tuple(a_size(data, (kernel[k] - 1) * dilations[k] + 1, pads[k], pads[k + 2]) for k in range(2))
    given_ = {"auto_pad": mode, "strides": strides, "dilations": dilations} | ({"pads": pads} if mode == "NOTSET" else {})
    w = normal(1, 2, 2, *kernel)
    graph = imported(tmp_path_factory.mktemp("w"), [n("Conv", ["x", "w"], ["y"], **given_)], (1, 2, *size), {"w": w})
    x = {"x": normal(0, 1, 2, *size)}
    found = pads_of(next(iter(graph.graph)), kernel, strides, dilations)
    plain = model([n("Conv", ["x", "w"], ["y"], pads=found, strides=strides, dilations=dilations)], {"x": x["x"].shape}, {"y": None}, {"w": w})
    np.testing.assert_array_equal(run(plain, x)["y"], run(graph, x)["y"])


def test_the_window_of_a_pool(tmp_path_factory: pytest.TempPathFactory) -> None:
    nodes = [n("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], auto_pad="SAME_LOWER", strides=[2, 2])]
    pool = next(iter(imported(tmp_path_factory.mktemp("w"), nodes, (1, 2, 6, 5)).graph))
    assert window_of(pool, (3, 2)) == {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 1, 0, 0), "dilations": (1, 1)}
    assert not rounds_up(pool)


FORMS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["nearest", "linear", "cubic"]),
        "coordinate_transformation_mode": st.sampled_from(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"]),
        "nearest_mode": st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    }
)


@settings(max_examples=30, deadline=None)
@given(FORMS, st.integers(1, 5), st.integers(1, 5), st.sampled_from([1, 2, 3, 1.5, 2.1, 0.5]), st.sampled_from([1, 2, 4]), st.booleans())
def test_exactly_those_that_repeat(
    tmp_path_factory: pytest.TempPathFactory, form: dict[str, str], height: int, width: int, tall: float, wide: float, sizes: bool
) -> None:
    after = (int(height * tall), width * int(wide))
    if not after[0] or (form["mode"] != "nearest" and min(height, width) == 1):
        return  # one pixel, interpolated with itself, is repeated but for rounding: either answer is right
    constants = {"k": np.array([1, 3, *after]) if sizes else np.array([1, 1, tall, wide], F)}
    operands = ["x", "", "", "k"] if sizes else ["x", "", "k"]
    graph = imported(tmp_path_factory.mktemp("r"), [n("Resize", operands, ["y"], "r", **form)], (1, 3, height, width), constants)
    x = normal(1, 1, 3, height, width)
    found = run(graph, {"x": x})["y"]
    whole = after[0] % height == 0
    same = whole and np.allclose(found, x.repeat(after[0] // height, 2).repeat(after[1] // width, 3), rtol=1e-6, atol=0)
    assert repeats(next(iter(graph.graph))) == same


def test_factors_that_are_computed_are_none(tmp_path: Path) -> None:
    nodes = [n("ReduceMax", ["x"], ["m"], keepdims=0), n("Mul", ["k", "m"], ["s"]), n("Resize", ["x", "", "s"], ["y"], mode="nearest")]
    graph = imported(tmp_path, nodes, constants={"k": np.ones(4, F)})
    assert not repeats(list(graph.graph)[-1])


def test_a_picture_too_large_for_its_numbers_is_not_asked_about(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Resize", ["x", "", "k"], ["y"], mode="nearest")], (1, 1, 8192, 4096), {"k": np.array([1, 1, 2, 2], F)})
    assert not repeats(next(iter(graph.graph)))


CONSTANTS = {"low": F(-0.5), "high": F(1.5), "pads": np.array([0, 0, 1, 0, 0, 0, 0, 1]), "three": F(3), "two": F(-2), "s": F(0.25),
             "z": np.uint8(100), "flat": np.array([1, -1, 1, 1]), "axes": np.array([2, 3]), "zero": np.array([0]),
             "k": np.array([[[[0.5]], [[-4]], [[2]]]], F)}  # fmt: skip
STEPS = {
    "relu": lambda a, b: [n("Relu", [a], [b])],
    "clip": lambda a, b: [n("Clip", [a, "low", "high"], [b])],
    "clip above": lambda a, b: [n("Clip", [a, "", "high"], [b])],
    "sigmoid": lambda a, b: [n("Sigmoid", [a], [b])],
    "tanh": lambda a, b: [n("Tanh", [a], [b])],
    "pad": lambda a, b: [n("Pad", [a, "pads"], [b])],
    "pad with 3": lambda a, b: [n("Pad", [a, "pads", "three"], [b])],
    "maximum": lambda a, b: [n("MaxPool", [a], [b], kernel_shape=[2, 2], pads=[1, 1, 0, 0])],
    "average": lambda a, b: [n("AveragePool", [a], [b], kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)],
    "mean": lambda a, b: [n("ReduceMean", [a, "axes"], [b])],
    "concat": lambda a, b: [n("Concat", [a, a], [b], axis=1)],
    "reshape": lambda a, b: [n("Reshape", [a, "flat"], [b])],
    "stored": lambda a, b: [n("QuantizeLinear", [a, "s", "z"], [f"{b}q"]), n("DequantizeLinear", [f"{b}q", "s", "z"], [b])],
    "sum": lambda a, b: [n("Add", [a, a], [b])],
    "transpose": lambda a, b: [n("Transpose", [a], [b], perm=[0, 1, 3, 2])],
}  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), st.integers(0, 2**20), st.sampled_from([0.1, 1, 30]))
def test_every_value_lies_inside(tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int, spread: float) -> None:
    names = ["x", *(f"t{k}" for k in range(len(steps)))]
    nodes = [node for step, a, b in zip(steps, names, names[1:], strict=False) for node in STEPS[step](a, b)]
    graph = imported(tmp_path_factory.mktemp("i"), nodes, constants=CONSTANTS)
    found = run(graph, {"x": normal(seed, 1, 3, 4, 4) * F(spread)})[names[-1]]
    inside = interval_of(graph.graph.outputs[0])
    assert inside.low - 1e-6 <= found.min()
    assert found.max() <= inside.high + 1e-6


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (["relu"], Interval(0, math.inf)),
        (["clip"], Interval(-0.5, 1.5)),
        (["clip", "relu", "maximum", "concat", "transpose"], Interval(0, 1.5)),
        (["clip above"], Interval(-math.inf, 1.5)),
        (["stored"], Interval(-25, 38.75)),
        (["sigmoid", "pad with 3"], Interval(0, 3)),
        (["clip", "sum"], ANY),
    ],
)
def test_intervals_are_as_narrow_as_the_operators_say(steps: list[str], wanted: Interval, tmp_path: Path) -> None:
    names = ["x", *(f"t{k}" for k in range(len(steps)))]
    nodes = [node for step, a, b in zip(steps, names, names[1:], strict=False) for node in STEPS[step](a, b)]
    assert interval_of(imported(tmp_path, nodes, constants=CONSTANTS).graph.outputs[0]) == wanted


def test_a_proof_goes_back_only_so_far(tmp_path: Path) -> None:
    nodes = [n("Relu", ["x"], ["t0"]), *(n("Transpose", [f"t{k}"], [f"t{k + 1}"], perm=[0, 1, 3, 2]) for k in range(4))]
    value = imported(tmp_path, nodes).graph.outputs[0]
    assert interval_of(value, 5).low == 0
    assert interval_of(value, 4) == ANY


@pytest.mark.parametrize(("kind", "low", "high"), [(TensorProto.INT8, -128, 127), (TensorProto.UINT8, 0, 255), (TensorProto.INT16, -32768, 32767)])
@pytest.mark.parametrize("zero", [0, 3])
def test_stored_integers_by_type_and_zero_point(kind: int, low: int, high: int, zero: int, tmp_path: Path) -> None:
    constants = {"s": F(0.5), "z": np.array(zero, helper.tensor_dtype_to_np_dtype(kind))}
    graph = imported(tmp_path, [n("QuantizeLinear", ["x", "s", "z"], ["q"]), n("DequantizeLinear", ["q", "s", "z"], ["y"])], constants=constants)
    wanted = Interval((low - zero) / 2, (high - zero) / 2)
    assert [stored_interval(node) for node in graph.graph] == [wanted, wanted]
    extremes = run(graph, {"x": np.linspace(-1e6, 1e6, 48, dtype=F).reshape(1, 3, 4, 4)})["y"]
    assert (extremes.min(), extremes.max()) == wanted


def test_a_scale_that_is_computed_proves_nothing(tmp_path: Path) -> None:
    nodes = [n("ReduceMax", ["x"], ["s"], keepdims=0), n("QuantizeLinear", ["x", "s"], ["q"]), n("DequantizeLinear", ["q", "s"], ["y"])]
    graph = imported(tmp_path, nodes)
    assert [stored_interval(node) for node in list(graph.graph)[1:]] == [ANY, ANY]


def test_limits_of_a_clip(tmp_path: Path) -> None:
    nodes = [n("ReduceMax", ["x"], ["top"], keepdims=0), n("Clip", ["x", "low", "top"], ["t"]), n("Clip", ["t"], ["y"])]
    first, second = list(imported(tmp_path, nodes, constants=CONSTANTS).graph)[1:]
    assert (limit(first, 1), limit(first, 2)) == (-0.5, math.inf)
    assert (limit(second, 1), limit(second, 2)) == (-math.inf, math.inf)


def test_limits_of_nodes(tmp_path: Path) -> None:
    """None where a limit is computed, and for other operators."""
    nodes = [
        n("ReduceMax", ["x"], ["top"], keepdims=0),
        n("Clip", ["x", "", "top"], ["a"]),
        n("Clip", ["a", "low", "high"], ["b"]),
        n("Relu", ["b"], ["y"]),
    ]
    found = [limits_of(node) for node in imported(tmp_path, nodes, constants=CONSTANTS).graph]
    assert found == [None, None, Interval(-0.5, 1.5), Interval(0, math.inf)]


def test_a_limit_that_is_computed_proves_nothing(tmp_path: Path) -> None:
    """The lower limit is 48 here: it lifts a result of the logistic function."""
    nodes = [n("ReduceSum", ["x"], ["size"], keepdims=0), n("Sigmoid", ["x"], ["t"]), n("Clip", ["t", "size"], ["y"])]
    graph = imported(tmp_path, nodes)
    assert interval_of(graph.graph.outputs[0]) == ANY
    assert run(graph, {"x": np.ones((1, 3, 4, 4), F)})["y"].max() == 48
