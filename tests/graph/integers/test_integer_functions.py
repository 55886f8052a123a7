"""ONNX Runtime on the functions' text and numpy's whole numbers agree on every bit: shapes, ties, extremes, every rounding."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.special_values import special_values, stored_value
from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.integers.calls import BOUNDARY, boundary_call, integer_call, run_call
from toolchain.graph.integers.endings import ROUNDINGS, average_fraction
from toolchain.graph.session import open_session, run_session
from toolchain.operations.ending import scaling_operands, zero_names
from toolchain.operations.library import builtin_kinds
from toolchain.spec.model.quantisation import AverageRule, FirstRounding, Fraction, Numerics, Range, Rounding

Array = np.ndarray
sizes = st.integers(1, 5)


@st.composite
def rules(draw: st.DrawFn) -> Numerics:
    """Machines of every kind of scale and rounding, whose tensors are int8 or uint8, with or without zeros of their own."""
    form = draw(st.sampled_from(["power_of_two", "multiplier", "float32"]))
    zeros = draw(st.booleans())
    return Numerics(
        rounding=draw(st.sampled_from(ROUNDINGS)),
        order=draw(st.sampled_from(["activation_first", "shift_first"])),
        form=form,  # type: ignore[arg-type]
        per_channel=draw(st.booleans()),
        first_rounding=draw(st.none() | st.builds(FirstRounding, st.sampled_from([5, 15, 31]), st.sampled_from(ROUNDINGS)))
        if form == "multiplier"
        else None,
        activation=Range(0, 255) if zeros and draw(st.booleans()) else Range(-128, 127),
        zero_points=zeros,
    )


def both(kind: str, variant: str, operands: list[Array], attributes: dict[str, Any], numerics: Numerics) -> tuple[Array, Array]:
    inputs = [
        ir.Value(name=f"i{number}", shape=ir.Shape(operand.shape), type=ir.TensorType(ir.DataType.from_numpy(operand.dtype)))
        for number, operand in enumerate(operands)
    ]
    graph = ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET}, name="one")
    model = ir.Model(graph, ir_version=IR_VERSION)
    if kind.split("__")[0] in BOUNDARY:
        node = boundary_call(model, kind, inputs, attributes, "call", numerics)
    else:
        node = integer_call(model, builtin_kinds()[kind], variant, inputs, attributes, "call", numerics)
    stored = ir.DataType[numerics.stored.upper()]
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT if kind == "dequantize" else stored)
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


def stored(data: st.DataObject, shape: tuple[int, ...], numerics: Numerics) -> Array:
    """Integers of the machine's type."""
    return (int8(data, shape).astype(np.int16) + (128 if numerics.stored == "uint8" else 0)).astype(numerics.stored)


def zeros(data: st.DataObject, kind: str, numerics: Numerics) -> dict[str, int]:
    held = numerics.activation
    return {name: data.draw(st.sampled_from([held.low, held.high, held.low + 3])) for name in zero_names(builtin_kinds()[kind], numerics)}


def requantisation(data: st.DataObject, total: int, leaky: bool, kind: str, numerics: Numerics) -> dict[str, Any]:
    low = data.draw(st.sampled_from([numerics.activation.low, numerics.activation.low + 1, 0]))
    limits = {"low": low, "high": data.draw(st.sampled_from([127, 6, 48]))}
    slope = {"slope": 26, "slope_shift": 8} if leaky else {}
    ends = {
        "shift": data.draw(st.integers(0, total)),
        "multiplier": data.draw(st.integers(1, 2**16)),
        "scale": data.draw(st.floats(2.0**-10, 1, width=32)),
    }
    return ends | limits | slope | zeros(data, kind, numerics)


def window(data: st.DataObject, height: int, width: int, dilation: tuple[int, int] = (1, 1)) -> dict[str, tuple[int, ...]]:
    kernel = tuple(data.draw(st.integers(1, max(1, min(4, (size - 1) // step + 1)))) for size, step in zip((height, width), dilation, strict=True))
    pads = tuple(data.draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4))
    return {"kernel_shape": kernel, "strides": tuple(data.draw(st.integers(1, 3)) for _ in range(2)), "pads": pads}


@settings(max_examples=30, deadline=None)
@given(st.data(), rules())
def test_convolution_and_dense(data: st.DataObject, numerics: Numerics) -> None:
    variant = data.draw(st.sampled_from(["", "relu", "clip", "leaky"]))
    group, inner, outer = data.draw(st.integers(1, 3)), data.draw(sizes), data.draw(st.integers(1, 3))
    height, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    dense = data.draw(st.booleans())
    kind = "dense" if dense else "conv2d"
    attributes: dict[str, Any] = {"bias_shift": data.draw(st.integers(0, 8))} | requantisation(data, 40, variant == "leaky", kind, numerics)
    if dense:
        x, w = stored(data, (2, inner * 7), numerics), int8(data, (outer, inner * 7))
    else:
        dilation = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2)))
        shape = window(data, height, width, dilation)
        x, w = stored(data, (2, group * inner, height, width), numerics), int8(data, (group * outer, inner, *shape["kernel_shape"]))
        attributes |= {"strides": shape["strides"], "pads": shape["pads"], "dilations": dilation, "group": group}
    channels = len(w)
    operands = [x, w, int8(data, (channels,)).astype(np.int32) * data.draw(st.sampled_from([1, 1000]))]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    own: dict[str, Array] = {"multiplier": rng.integers(1, 2**16, channels).astype(np.int32), "shift": rng.integers(0, 40, channels).astype(np.int32)}
    own["scale"] = (rng.integers(1, 2**16, channels) / 2.0**24).astype(np.float32)
    operands += [own[name] for name in scaling_operands(builtin_kinds()[kind], numerics)]
    found, wanted = both(kind, variant, operands, attributes, numerics)
    np.testing.assert_array_equal(found, wanted)


@settings(max_examples=25, deadline=None)
@given(st.data(), rules())
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
    attributes |= window(data, *shape[2:]) | {"dilations": (1, 1)} | requantisation(data, 20, leaky, kind, numerics)
    if kind == "pad":
        attributes["pads"] = (0, 0, *(data.draw(sizes) for _ in range(2)), 0, 0, *(data.draw(sizes) for _ in range(2)))
    found, wanted = both(kind, variant, [stored(data, shape, numerics) for _ in range(count)], attributes, numerics)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype == np.dtype(numerics.stored)


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
@pytest.mark.parametrize("zero", [None, 0, 130])
def test_boundary(rounding: str, scale: float, zero: int | None) -> None:
    x = np.concatenate([np.arange(-600, 600) / 8, [1e30, -1e30, 0.1]]).astype(np.float32).reshape(1, -1)
    own = {} if zero is None else {"zero_points": True, "activation": Range(0, 255)}
    numerics, low = Numerics(rounding=rounding, **own), -128 if zero is None else 0  # type: ignore[arg-type]
    ends = {"scale": scale, "low": low, "high": low + 255, "zero_y": zero}
    factors = np.exp2(np.linspace(-3, 3, x.size)).astype(np.float32).reshape(x.shape)
    np.testing.assert_array_equal(*both("quantize__channels", "", [x, factors], ends, numerics))
    found, wanted = both("quantize", "", [x], ends, numerics)
    np.testing.assert_array_equal(found, wanted)
    found, wanted = both("dequantize", "", [found], {"scale": scale, "zero_x": zero}, numerics)
    np.testing.assert_array_equal(found, wanted)
    assert found[0, 600] == 0


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("zero", "low"), [(None, -128), (3, -128), (130, 0), (0, 0)])
def test_special_values_at_the_border(rounding: Rounding, zero: int | None, low: int) -> None:
    """numpy and the ONNX function, rewritten by ONNX Runtime or not, give what the table says."""
    own = {} if zero is None else {"zero_points": True, "activation": Range(low, low + 255)}
    numerics = Numerics(rounding=rounding, **own)  # type: ignore[arg-type]
    for scale in (0.25, 0.3, 1.5e-38):
        x = special_values(scale)
        ends = {"scale": scale, "low": low, "high": low + 255, "zero_y": zero}
        wanted = [stored_value(float(value), scale, (low, low + 255, zero or 0), rounding) for value in x]
        for found in (*both("quantize", "", [x], ends, numerics), *both("quantize__channels", "", [x, np.ones_like(x)], ends, numerics)):
            assert found.tolist() == wanted


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
