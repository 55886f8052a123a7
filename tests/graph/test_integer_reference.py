"""The numpy reference against exact fractions, and against ONNX Runtime's integer operators."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from toolchain.graph.integer_reference import convolve, quantize, rounded_shift

from tests.graph.imported import run
from toolchain.graph.numerics import ROUNDINGS, Rounding

n = helper.make_node


def rounded(value: Fraction, rounding: Rounding) -> int:
    """By the meaning of the word."""
    below, half = floor(value), Fraction(1, 2)
    if value - below != half or rounding == "floor":
        return below if rounding == "floor" or value - below < half else below + 1
    return {"half_up": below + 1, "half_even": below + below % 2, "half_away": below if value < 0 else below + 1}[rounding]


@settings(max_examples=200)
@given(st.integers(-(2**40), 2**40), st.integers(0, 45), st.sampled_from(ROUNDINGS))
def test_a_rounded_shift(value: int, shift: int, rounding: Rounding) -> None:
    assert rounded_shift(np.array([value]), np.int64(shift), rounding)[0] == rounded(Fraction(value, 2**shift), rounding)


@given(st.integers(-300, 300), st.integers(0, 4), st.sampled_from(ROUNDINGS))
def test_quantisation_of_what_lies_between_two_steps(parts: int, shift: int, rounding: Rounding) -> None:
    wanted = min(max(rounded(Fraction(parts, 2**shift), rounding), -100), 120)
    assert quantize(np.array([parts / 2**shift * 0.25], np.float32), 0.25, -100, 120, rounding)[0] == wanted
    assert ceil(wanted) == wanted


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_convolution_is_that_of_onnx_runtime(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    group = data.draw(st.integers(1, 3))
    attributes = {
        "strides": data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "pads": data.draw(st.tuples(*[st.integers(0, 2)] * 4)),
        "dilations": data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "group": group,
    }
    x = rng.integers(-128, 128, (2, 2 * group, 6, 7)).astype(np.int8)
    w = rng.integers(-128, 128, (3 * group, 2, *data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))))).astype(np.int8)
    graph = helper.make_graph(
        [n("ConvInteger", ["x", "w"], ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info(name, TensorProto.INT8, array.shape) for name, array in (("x", x), ("w", w))],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
    )
    wanted = run(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), {"x": x, "w": w})["y"]
    np.testing.assert_array_equal(convolve(x.astype(np.int64), w.astype(np.int64), attributes), wanted)
