"""What an interval says of a tensor holds for whatever ONNX Runtime makes of any input."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import n
from toolchain.graph.intervals import ANY, Interval, interval_of, limit, limits_of, stored_interval

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
