"""ONNX Runtime on the functions' text and numpy's whole numbers agree on every bit: shapes, ties, extremes, every rounding."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.graph.calls import BOUNDARY, boundary_call, integer_call, run_call
from toolchain.graph.numerics import ROUNDINGS, AverageRule, Fraction, Numerics, average_fraction
from toolchain.graph.session import open_session, run_session
from toolchain.graph.versions import IR_VERSION, OPSET
from toolchain.operations.library import builtin_kinds

Array = np.ndarray
sizes = st.integers(1, 5)
rules = st.builds(
    Numerics,
    rounding=st.sampled_from(ROUNDINGS),
    order=st.sampled_from(["activation_first", "shift_first"]),
    form=st.sampled_from(["power_of_two", "multiplier"]),
)


def both(kind: str, variant: str, operands: list[Array], attributes: dict[str, Any], numerics: Numerics) -> tuple[Array, Array]:
    inputs = [
        ir.Value(name=f"i{number}", shape=ir.Shape(operand.shape), type=ir.TensorType(ir.DataType.from_numpy(operand.dtype)))
        for number, operand in enumerate(operands)
    ]
    graph = ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET}, name="one")
    model = ir.Model(graph, ir_version=IR_VERSION)
    if kind in BOUNDARY:
        node = boundary_call(model, kind, inputs[0], attributes, "call", numerics)
    else:
        node = integer_call(model, builtin_kinds()[kind], variant, inputs, attributes, "call", numerics)
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT if kind == "dequantize" else ir.DataType.INT8)
    graph.append(node)
    graph.outputs.append(node.outputs[0])
    session = open_session(ir.to_proto(model).SerializeToString())
    found = run_session(session, {f"i{number}": operand for number, operand in enumerate(operands)})["y"]
    return found, run_call(node, operands, numerics, builtin_kinds())


def int8(data: st.DataObject, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), "seed"))
    return (
        rng.choice(np.array([-128, -127, -1, 0, 1, 126, 127]), shape).astype(np.int8)
        if data.draw(st.booleans())
        else rng.integers(-128, 128, shape).astype(np.int8)
    )


def requantisation(data: st.DataObject, total: int, leaky: bool) -> dict[str, int]:
    low = data.draw(st.sampled_from([-128, -127, 0]))
    limits = {"low": low, "high": data.draw(st.sampled_from([127, 6, 48]))}
    slope = {"slope": 26, "slope_shift": 8} if leaky else {}
    return {"shift": data.draw(st.integers(0, total))} | limits | slope


def window(data: st.DataObject, height: int, width: int, dilation: tuple[int, int] = (1, 1)) -> dict[str, tuple[int, ...]]:
    kernel = tuple(data.draw(st.integers(1, max(1, min(4, (size - 1) // step + 1)))) for size, step in zip((height, width), dilation, strict=True))
    pads = tuple(data.draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4))
    return {"kernel_shape": kernel, "strides": tuple(data.draw(st.integers(1, 3)) for _ in range(2)), "pads": pads}


@settings(max_examples=60, deadline=None)
@given(st.data(), rules)
def test_convolution_and_dense(data: st.DataObject, numerics: Numerics) -> None:
    variant = data.draw(st.sampled_from(["", "relu", "clip", "leaky"]))
    group, inner, outer = data.draw(st.integers(1, 3)), data.draw(sizes), data.draw(st.integers(1, 3))
    height, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    dense = data.draw(st.booleans())
    attributes: dict[str, Any] = {"bias_shift": data.draw(st.integers(0, 8))} | requantisation(data, 40, variant == "leaky")
    if dense:
        x, w = int8(data, (2, inner * 7)), int8(data, (outer, inner * 7))
    else:
        dilation = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2)))
        shape = window(data, height, width, dilation)
        x, w = int8(data, (2, group * inner, height, width)), int8(data, (group * outer, inner, *shape["kernel_shape"]))
        attributes |= {"strides": shape["strides"], "pads": shape["pads"], "dilations": dilation, "group": group}
    channels = len(w)
    operands = [x, w, int8(data, (channels,)).astype(np.int32) * data.draw(st.sampled_from([1, 1000]))]
    if numerics.form == "multiplier":
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        operands += [rng.integers(1, 2**16, channels).astype(np.float64), 2.0 ** rng.integers(0, 40, channels)]
    found, wanted = both("dense" if dense else "conv2d", variant, operands, attributes, numerics)
    np.testing.assert_array_equal(found, wanted)


@settings(max_examples=40, deadline=None)
@given(st.data(), rules)
def test_sums_and_pools(data: st.DataObject, numerics: Numerics) -> None:
    kind = data.draw(st.sampled_from(["add", "average_pool", "max_pool", "upsample", "pad", "flatten", "concat", "shuffle"]))
    group = data.draw(st.integers(1, 3)) if kind == "shuffle" else 1
    shape = (data.draw(st.integers(1, 2)), data.draw(sizes) * group, data.draw(st.integers(1, 8)), data.draw(st.integers(1, 8)))
    count = {"add": 2, "concat": data.draw(st.integers(2, 4))}.get(kind, 1)
    leaky = kind == "add" and data.draw(st.booleans())
    variant = str(count) if kind == "concat" else "leaky" if leaky else ""
    attributes: dict[str, Any] = {
        "axis": 1,
        "group": group,
        "factors": (data.draw(sizes), data.draw(sizes)),
        "multiply": 7,
        "multiply_x": 1,
        "multiply_z": 2 ** data.draw(st.integers(0, 12)),
    }
    attributes |= window(data, *shape[2:]) | {"dilations": (1, 1)} | requantisation(data, 20, leaky)
    if kind == "pad":
        attributes["pads"] = (0, 0, *(data.draw(sizes) for _ in range(2)), 0, 0, *(data.draw(sizes) for _ in range(2)))
    found, wanted = both(kind, variant, [int8(data, shape) for _ in range(count)], attributes, numerics)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == np.int8


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_every_tie_of_every_shift(rounding: str) -> None:
    """All sums of two int8 times 0 to 8, over every shift: ties of both signs, and values around them."""
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 16, 16)
    for shift in range(9):
        attributes = {"multiply_x": 1, "multiply_z": 3, "shift": shift, "low": -128, "high": 127}
        found, wanted = both("add", "", [x, x[..., ::-1].copy()], attributes, Numerics(rounding=rounding))  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, wanted)


def test_roundings_are_what_they_are_called() -> None:
    """2.5, -2.5, 3.5, -3.5, -2.75."""
    x = np.array([[[[10, -10, 14, -14, -11]]]], np.int8)
    wanted = {"half_up": [3, -2, 4, -3, -3], "half_even": [2, -2, 4, -4, -3], "half_away": [3, -3, 4, -4, -3], "floor": [2, -3, 3, -4, -3]}
    for rounding in ROUNDINGS:
        attributes = {"multiply_x": 1, "multiply_z": 0, "shift": 2, "low": -128, "high": 127}
        for result in both("add", "", [x, x], attributes, Numerics(rounding=rounding)):
            assert result.ravel().tolist() == wanted[rounding]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("scale", [0.5, 0.0625, 2.0, 0.3])
def test_boundary(rounding: str, scale: float) -> None:
    x = np.concatenate([np.arange(-600, 600) / 8, [1e30, -1e30, 0.1]]).astype(np.float32).reshape(1, -1)
    numerics = Numerics(rounding=rounding)  # type: ignore[arg-type]
    found, wanted = both("quantize", "", [x], {"scale": scale, "low": -128, "high": 127}, numerics)
    np.testing.assert_array_equal(found, wanted)
    found, wanted = both("dequantize", "", [found], {"scale": scale}, numerics)
    np.testing.assert_array_equal(found, wanted)


def test_average_fractions() -> None:
    rule = AverageRule(table=((3, 3, Fraction(7, 6)), (7, 7, Fraction(21, 10))))
    assert average_fraction(rule, 3, 3) == Fraction(7, 6)
    assert average_fraction(rule, 8, 8) == Fraction(1, 6)
    assert average_fraction(rule, 5, 5) == Fraction(41, 10)
    assert average_fraction(rule, 1, 1) == Fraction(1, 0)
    for size in range(1, 30):
        fraction = average_fraction(rule, size, size)
        assert 0 < fraction.numerator < 128
        assert abs(fraction.numerator / 2**fraction.shift * size * size - 1) < 0.02 or size in (3, 7)
