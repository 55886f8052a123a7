"""Calls in float32: the same bytes as in int64 and float64 up to the very limit, and left alone beyond it."""

from typing import Any, get_args

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.integers.test_functions import Numbers, call_of, results, values_of
from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.integers.calls import integer_call
from toolchain.graph.integers.functions import use_float_products
from toolchain.graph.integers.narrow import EXACT, LARGEST, NARROW
from toolchain.operations.library import builtin_kinds
from toolchain.spec.model.quantisation import Numerics, Rounding

WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}


def is_narrow(model: ir.Model) -> bool:
    (node,) = use_float_products(model.clone()).graph
    return node.op_type.endswith(NARROW)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(0, 20), st.integers(0, 5), st.integers(-3000, 3000), st.sampled_from(get_args(Rounding)))
def test_convolutions(seed: int, shift: int, bias_shift: int, bias: int, rounding: Rounding) -> None:
    rng = np.random.default_rng(seed)
    x, weights = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((1, 3, 5, 4), (4, 3, 3, 2)))
    model = call_of("conv2d", x, weights, WINDOW | {"shift": shift, "bias_shift": bias_shift}, Numerics(rounding=rounding), bias)
    one, other = results(model, x)
    np.testing.assert_array_equal(one, other)
    largest = LARGEST * int(np.abs(weights.astype(int)).sum((1, 2, 3)).max()) + abs(bias) * 2**bias_shift
    halves = 1 if rounding == "half_up" else 0
    assert is_narrow(model) == (rounding != "half_away" and largest * 2 ** max(halves - shift, 0) + halves * 2 ** max(shift - 1, 0) <= EXACT)


@pytest.mark.parametrize(("bias", "narrow"), [(0, True), (1, False), (-1, False)])
def test_only_where_no_sum_is_rounded(bias: int, narrow: bool) -> None:
    """992 products of 2**14 and a half of the last step make 2**24."""
    x, weights = np.full((1, 992), -128, np.int8), np.full((1, 992), -128, np.int8)
    model = call_of("dense", x, weights, {"shift": 20}, Numerics(), bias)
    assert is_narrow(model) == narrow
    one, other = results(model, x)
    np.testing.assert_array_equal(one, other)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), st.integers(0, 14), st.integers(1, 1 << 12), st.integers(1, 1 << 17))
def test_sums(seed: int, shift: int, one: int, other: int) -> None:
    given = values_of([np.zeros((1, 2, 3, 3), np.int8)] * 2)
    model = ir.Model(ir.Graph(given, [], nodes=[], opset_imports={"": OPSET}, name="one"), ir_version=IR_VERSION)
    ends = {"multiply_x": one, "multiply_z": other, "shift": shift, "low": -128, "high": 127}
    node = integer_call(model, builtin_kinds()["add"], "", given, ends, "call", Numerics())
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.INT8)
    model.graph.append(node)
    model.graph.outputs.append(node.outputs[0])
    rng = np.random.default_rng(seed)
    inputs = {f"i{k}": rng.integers(-128, 128, (1, 2, 3, 3)).astype(np.int8) for k in range(2)}
    wanted, found = (outputs(each, inputs) for each in (model, use_float_products(model.clone())))
    np.testing.assert_array_equal(wanted, found)
    assert is_narrow(model) == (LARGEST * (one + other) * 2 ** max(1 - shift, 0) + 2 ** max(shift - 1, 0) <= EXACT)


def outputs(model: ir.Model, inputs: dict[str, Numbers]) -> Numbers:
    from toolchain.graph.session import run_session
    from toolchain.graph.store import open_model

    return run_session(open_model(model, optimise=False), inputs)["y"]
