"""Products of integers in float32: the same bytes where sums are exact, also at the very limit, and integers where they might not be."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.integers.calls import integer_call
from toolchain.graph.integers.float_products import CALLED, EXACT, LARGEST, use_float_products
from toolchain.graph.rewrite import add_constant
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.operations.library import builtin_kinds
from toolchain.spec.model.quantisation import Numerics

Array = np.ndarray
WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "conv2d": ((2, 6, 5, 4), (4, 3, 3, 2), WINDOW | {"group": 2}),
    "conv_transpose": ((1, 3, 4, 4), (2, 3, 3, 3), WINDOW | {"output_padding": (0, 0)}),
    "dense": ((3, 40), (5, 40), {}),
    "linear": ((1, 3, 40), (5, 40), {}),
}


def call_of(kind: str, x: Array, weights: Array, attributes: dict[str, Any], numerics: Numerics) -> ir.Model:
    """A model of one call. Its shift leaves high bits alone."""
    given = ir.Value(name="x", shape=ir.Shape(x.shape), type=ir.TensorType(ir.DataType.from_numpy(x.dtype)))
    model = ir.Model(ir.Graph([given], [], nodes=[], opset_imports={"": OPSET}, name="one"), ir_version=IR_VERSION)
    known = [add_constant(model.graph, "w", weights), add_constant(model.graph, "b", np.zeros(len(weights), np.int32))]
    ends = {"bias_shift": 0, "shift": 6, "low": -128, "high": 127, "zero_x": 3, "zero_y": -5}
    node = integer_call(model, builtin_kinds()[kind], "", [given, *known], ends | attributes, "call", numerics)
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.INT8)
    model.graph.append(node)
    model.graph.outputs.append(node.outputs[0])
    return model


def results(model: ir.Model, x: Array) -> tuple[Array, Array]:
    """Of the model, and of a copy with products in floating point where they are exact."""
    one, other = (run_session(open_model(each, optimise=False), {"x": x})["y"] for each in (model, use_float_products(model.clone())))
    return one, other


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_the_same_integers(kind: str, zeros: bool) -> None:
    rng, (shape, rows, attributes) = np.random.default_rng(0), CASES[kind]
    x, weights = rng.integers(-128, 128, shape).astype(np.int8), rng.integers(-128, 128, rows).astype(np.int8)
    model = call_of(kind, x, weights, attributes, Numerics(zero_points=zeros))
    (node,) = use_float_products(model.clone()).graph
    assert node.op_type.endswith(CALLED)
    one, other = results(model, x)
    assert len(np.unique(one)) > 5
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("size", "floating"), [(EXACT // LARGEST // 128, True), (EXACT // LARGEST // 128 + 1, False)])
def test_only_where_no_sum_is_rounded(size: int, floating: bool) -> None:
    """At the limit the sum of all products is 2**24."""
    x, weights = np.full((1, size), -128, np.int8), np.full((1, size), -128, np.int8)
    x[0, 0] = 127
    model = call_of("dense", x, weights, {"shift": 20}, Numerics())
    (node,) = use_float_products(model.clone()).graph
    assert node.op_type.endswith(CALLED) == floating
    one, other = results(model, x)
    np.testing.assert_array_equal(one, other)
    assert one.item() == round((size - 2) * 128**2 / 2**20)


def test_the_model_itself_stays_as_it_is() -> None:
    x, weights = np.zeros((1, 4), np.int8), np.ones((2, 4), np.int8)
    model = call_of("dense", x, weights, {}, Numerics())
    use_float_products(model.clone())
    assert [node.op_type for node in model.graph] == ["dense"]
    assert len(model.functions) == 1
