"""Fused operations in floating point compute what ONNX's own operators do; names and kinds are read back. Products of integers in float32: the
same bytes where sums are exact, also at the very limit, and integers where they might not be."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.graph.imported import Array, F, normal, run
from tests.graph.onnx_builder import model, n
from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.integers.calls import fused_call, integer_call, read_call
from toolchain.graph.integers.functions import CALLED, FUSED, INTEGER, kind_of, use_float_products, variant_of
from toolchain.graph.integers.narrow import EXACT, LARGEST
from toolchain.graph.rewrite import add_constant
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.operations.library import builtin_kinds
from toolchain.spec.model.quantisation import Numerics

KINDS = builtin_kinds()
WINDOW = {"kernel_shape": (2, 3), "strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (2, 1)}
CONVOLUTION = {"strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2), "group": 2}
X, W, B = normal(0, 2, 4, 6, 7), normal(1, 6, 2, 3, 2), normal(2, 6)
CASES: dict[str, tuple[list[Array], dict[str, Any], list[Any]]] = {
    "conv2d": ([X, W, B], CONVOLUTION, [n("Conv", ["i0", "i1", "i2"], ["y"], **CONVOLUTION)]),
    "dense": ([normal(3, 2, 5), normal(4, 3, 5), normal(5, 3)], {}, [n("Gemm", ["i0", "i1", "i2"], ["y"], transB=1)]),
    "add": ([X, X + 1], {}, [n("Add", ["i0", "i1"], ["y"])]),
    "max_pool": ([X], WINDOW, [n("MaxPool", ["i0"], ["y"], **WINDOW)]),
    "average_pool": ([X], WINDOW, [n("AveragePool", ["i0"], ["y"], count_include_pad=1, **WINDOW)]),
    "upsample": ([X], {"factors": (2, 3)}, [n("Resize", ["i0", "", "s"], ["y"], coordinate_transformation_mode="asymmetric", nearest_mode="floor")]),
    "pad": ([X], {"pads": (0, 0, 1, 2, 0, 0, 3, 0)}, [n("Pad", ["i0", "p"], ["y"])]),
    "flatten": ([X], {}, [n("Flatten", ["i0"], ["y"])]),
    "concat": ([X, X + 1, X + 2], {"axis": 1}, [n("Concat", ["i0", "i1", "i2"], ["y"], axis=1)]),
    "shuffle": ([X], {"group": 2}, [n("Reshape", ["i0", "five"], ["a"]), n("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3, 4]),
                                    n("Reshape", ["b", "four"], ["y"])]),
}  # fmt: skip
CONSTANTS = {"s": np.array([1, 1, 2, 3], F), "p": np.array([0, 0, 1, 2, 0, 0, 3, 0]), "five": np.array([2, 2, 2, 6, 7]),
             "four": np.array([2, 4, 6, 7]), "low": F(-0.5), "high": F(0.75)}  # fmt: skip

Numbers = np.ndarray
EVEN_WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "conv2d": ((2, 6, 5, 4), (4, 3, 3, 2), EVEN_WINDOW | {"group": 2}),
    "conv_transpose": ((1, 3, 4, 4), (2, 3, 3, 3), EVEN_WINDOW | {"output_padding": (0, 0)}),
    "dense": ((3, 40), (5, 40), {}),
    "linear": ((1, 3, 40), (5, 40), {}),
}


def values_of(operands: list[Array]) -> list[ir.Value]:
    return [
        ir.Value(name=f"i{k}", shape=ir.Shape(each.shape), type=ir.TensorType(ir.DataType.from_numpy(each.dtype))) for k, each in enumerate(operands)
    ]


def called(kind: str, variant: str, extra: dict[str, float]) -> tuple[Array, ir.Node]:
    operands, attributes, _ = CASES[kind]
    inputs = values_of(operands)
    graph = ir.Model(ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET}, name="one"), ir_version=IR_VERSION)
    node = fused_call(graph, KINDS[kind], variant, inputs, attributes | extra, "call")
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.FLOAT)
    graph.graph.append(node)
    graph.graph.outputs.append(node.outputs[0])
    return run(graph, {f"i{k}": each for k, each in enumerate(operands)})["y"], node


ACTIVE = {"": ({}, []), "relu": ({}, [n("Relu", ["y"], ["z"])]), "leaky": ({"alpha": 0.25}, [n("LeakyRelu", ["y"], ["z"], alpha=0.25)]),
          "clip": ({"minimum": -0.5, "maximum": 0.75}, [n("Clip", ["y", "low", "high"], ["z"])])}  # fmt: skip


@pytest.mark.parametrize(("kind", "variant"), [(kind, variant) for kind in CASES for variant in ACTIVE if not variant or KINDS[kind].activates])
def test_floating_point_forms(kind: str, variant: str) -> None:
    operands, attributes, nodes = CASES[kind]
    extra, more = ACTIVE[variant]
    found, node = called(kind, "3" if kind == "concat" else variant, extra)
    proto = model([*nodes, *more], {f"i{k}": each.shape for k, each in enumerate(operands)}, {"z" if more else "y": None}, CONSTANTS)
    (wanted,) = run(proto, {f"i{k}": each for k, each in enumerate(operands)}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert (node.domain, kind_of(node), variant_of(node)) == (FUSED, kind, "3" if kind == "concat" else variant)
    call = read_call(node, KINDS)
    assert (call.name, call.kind, call.activation, call.output) == ("call", kind, variant, "y")
    assert call.inputs == tuple(f"i{k}" for k in range(len(operands)))
    assert dict(call.attributes) == attributes | extra


def test_other_nodes_have_no_kind() -> None:
    node = ir.node("Conv", [], name="c")
    assert (kind_of(node), variant_of(node)) == ("", "")
    with pytest.raises(ValueError, match="Conv is no fused operation"):
        read_call(node, KINDS)


def test_a_function_is_in_the_model_once_and_in_each_numerics_of_its_own() -> None:
    given = {"multiply_x": 1, "multiply_z": 1, "shift": 1, "low": -128, "high": 127}
    texts = set()
    for rounding in ("half_up", "half_even"):
        inputs = values_of([np.zeros((1, 2, 3, 3), np.int8)] * 2)
        graph = ir.Model(ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET}, name="one"), ir_version=IR_VERSION)
        for name in ("one", "two"):
            node = integer_call(graph, KINDS["add"], "", inputs, given, name, Numerics(rounding=rounding))  # type: ignore[arg-type]
        assert [key[:2] for key in graph.functions] == [(INTEGER, "add")]
        assert graph.graph.opset_imports[INTEGER] == 1
        texts.add(str([part.op_type for part in graph.functions[node.op_identifier()]]))
    assert len(texts) == 2


def call_of(kind: str, x: Numbers, weights: Numbers, attributes: dict[str, Any], numerics: Numerics, bias: int = 0) -> ir.Model:
    """A model of one call. Its shift leaves high bits alone."""
    given = ir.Value(name="x", shape=ir.Shape(x.shape), type=ir.TensorType(ir.DataType.from_numpy(x.dtype)))
    model = ir.Model(ir.Graph([given], [], nodes=[], opset_imports={"": OPSET}, name="one"), ir_version=IR_VERSION)
    known = [add_constant(model.graph, "w", weights), add_constant(model.graph, "b", np.full(len(weights), bias, np.int32))]
    ends = {"bias_shift": 0, "shift": 6, "low": -128, "high": 127, "zero_x": 3, "zero_y": -5}
    node = integer_call(model, builtin_kinds()[kind], "", [given, *known], ends | attributes, "call", numerics)
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(ir.DataType.INT8)
    model.graph.append(node)
    model.graph.outputs.append(node.outputs[0])
    return model


def results(model: ir.Model, x: Numbers) -> tuple[Numbers, Numbers]:
    """Of the model, and of a copy with products in floating point where they are exact."""
    one, other = (run_session(open_model(each, optimise=False), {"x": x})["y"] for each in (model, use_float_products(model.clone())))
    return one, other


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_the_same_integers(kind: str, zeros: bool) -> None:
    rng, (shape, rows, attributes) = np.random.default_rng(0), PRODUCTS[kind]
    x, weights = rng.integers(-128, 128, shape).astype(np.int8), rng.integers(-128, 128, rows).astype(np.int8)
    model = call_of(kind, x, weights, attributes, Numerics(zero_points=zeros))
    (node,) = use_float_products(model.clone()).graph
    assert CALLED in node.op_type
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
    assert (CALLED in node.op_type) == floating
    one, other = results(model, x)
    np.testing.assert_array_equal(one, other)
    assert one.item() == round((size - 2) * 128**2 / 2**20)


def test_the_model_itself_stays_as_it_is() -> None:
    x, weights = np.zeros((1, 4), np.int8), np.ones((2, 4), np.int8)
    model = call_of("dense", x, weights, {}, Numerics())
    use_float_products(model.clone())
    assert [node.op_type for node in model.graph] == ["dense"]
    assert len(model.functions) == 1
