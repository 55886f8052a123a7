"""clib32: its library against ONNX Runtime where the two could part: windows past the padding, rows of nearly equal numbers, special values."""

from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from bench.in_process import Target
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.special_values import special_values
from toolchain.graph.session import open_session, run_session

Array = NDArray[Any]
CLIB32 = Target("clib32")
F = np.float32
n = helper.make_node


def both(proto: onnx.ModelProto, x: Array) -> dict[str, tuple[Array, Array]]:
    """By output: of the library, and of ONNX Runtime. Every node is the library's."""
    compiled = compile_network(proto, "both", CLIB32, np.clip(np.abs(np.nan_to_num(x[None])), 1, 9))
    assert [call.domain for call in compiled.partitioned.graph] == ["tilewright.region"] * compiled.regions
    expected = run_session(open_session(proto.SerializeToString(), optimise=False), {"x": x})
    found = compiled.executor.run({"x": x}).outputs
    return {name: (found[name], array) for name, array in expected.items()}


def pools(seed: int, shape: tuple[int, int]) -> list[onnx.NodeProto]:
    """Pools of a picture of this shape, among them windows that end past the padding; ONNX Runtime takes each of them."""
    draw, found = Random(seed), list[onnx.NodeProto]()
    while len(found) < 24:
        kernel, stride, dilation = ([draw.randint(1, most) for _ in shape] for most in (4, 3, 2))
        pads = [draw.randint(0, min(kernel) - 1) for _ in range(4)]
        given: dict[str, Any] = {"kernel_shape": kernel, "strides": stride, "dilations": dilation, "pads": pads}
        kind = draw.choice(["AveragePool", "AveragePool", "MaxPool"])
        more: dict[str, Any] = {"count_include_pad": draw.choice([0, 1, 1])} if kind == "AveragePool" else {}
        spans = [size + pads[k] + pads[k + 2] - (kernel[k] - 1) * dilation[k] - 1 for k, size in enumerate(shape)]
        if all(span > -step for span, step in zip(spans, stride, strict=True)):
            found.append(n(kind, ["x"], [f"y{len(found)}"], f"pool{len(found)}", **given, **more))
    return found


@pytest.mark.drawn(1)
@pytest.mark.parametrize("shape", [(12, 1), (2, 3), (5, 4)])
def test_windows_past_the_padding_are_onnx_runtimes(shape: tuple[int, int]) -> None:
    nodes = pools(sum(shape), shape)
    proto = model(nodes, {"x": [1, 2, *shape]}, {node.output[0]: None for node in nodes})
    for found, expected in both(proto, np.random.default_rng(0).normal(size=(1, 2, *shape)).astype(F)).values():
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("length", [7, 46, 768])
def test_rows_of_nearly_equal_numbers_are_normalised_to_the_last_bits(length: int) -> None:
    """Against doubles: ONNX Runtime itself, whose mean is a float32, is further away the smaller the deviation."""
    rows = [mean + deviation * np.random.default_rng(k).normal(size=length) for k, (mean, deviation) in enumerate([(0, 1), (1, 1e-3), (100, 1e-3)])]
    x = np.array(rows, F)
    node = n("LayerNormalization", ["x", "scale"], ["y"], "norm", epsilon=1e-5)
    found, expected = both(model([node], {"x": list(x.shape)}, {"y": list(x.shape)}, {"scale": np.ones(length, F)}), x)["y"]
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(1, keepdims=True) + np.float64(F(1e-5)))
    assert np.abs(found - exact).max() < 5e-7
    assert np.abs(expected - exact).max() > 1e-4


UNARY = [
    "Relu",
    "LeakyRelu",
    "Elu",
    "Selu",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Softplus",
    "Tanh",
    "Erf",
    "Exp",
    "Log",
    "Sqrt",
    "Abs",
    "Neg",
    "Gelu",
]
BINARY = ["Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"]


def test_special_values() -> None:
    """No numbers, infinities, subnormals and the largest numbers, one operator each and two at a time."""
    values = special_values(0.25)
    nodes = [n(kind, ["x"], [kind.lower()], kind) for kind in UNARY]
    nodes += [n(kind, ["x", "z"], [kind.lower()], kind) for kind in BINARY]
    nodes += [n("Clip", ["x", "low", "high"], ["clip"], "Clip")]
    constants = {"z": np.roll(values, 5)[None], "low": np.array(-1, F), "high": np.array(2, F)}
    proto = model(nodes, {"x": [1, values.size]}, {node.output[0]: None for node in nodes}, constants)
    for name, (found, expected) in both(proto, values[None]).items():
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True, err_msg=name)


def test_special_values_in_rows() -> None:
    """One such number among others, in each plane another. The largest with a NaN is NaN; ONNX Runtime's depends on where that stands."""
    values = special_values(0.25)[:20]
    x = np.random.default_rng(0).normal(size=(1, values.size, 3, 3)).astype(F)
    x[0, :, 1, 1] = values
    nodes = [
        n("MaxPool", ["x"], ["pool"], "pool", kernel_shape=[2, 2], strides=[1, 1]),
        n("GlobalMaxPool", ["x"], ["largest"], "largest"),
        n("ReduceMax", ["x", "axes"], ["most"], "most"),
        n("ReduceSum", ["x", "axes"], ["sum"], "sum"),
        n("Softmax", ["x"], ["soft"], "soft", axis=-1),
        n("GlobalAveragePool", ["x"], ["mean"], "mean"),
    ]
    proto = model(nodes, {"x": list(x.shape)}, {node.output[0]: None for node in nodes}, {"axes": np.array([2, 3])})
    unknown = np.isnan(values)
    for name, (found, expected) in both(proto, x).items():
        compared = ~unknown if name in ("pool", "largest", "most") else np.ones_like(unknown)
        np.testing.assert_allclose(found[:, compared], expected[:, compared], rtol=1e-3, atol=1e-4, equal_nan=True, err_msg=name)
        assert np.isnan(found[:, unknown]).any()
