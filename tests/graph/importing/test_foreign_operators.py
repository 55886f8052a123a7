"""Operators on stored integers that ONNX Runtime's tools write become standard operators with the same results.

A layer that is being written out knows its operands, results and tensors, and names what it adds after its result.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.imported import F, normal, run
from tests.graph.onnx_builder import n
from toolchain.graph.importing.foreign_operators import VENDOR, Facts, Known, Layer, share_floats, write_out
from toolchain.graph.importing.load import load_graph
from toolchain.graph.session import open_session
from toolchain.passes.truth import Given

Array = np.ndarray


def network(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in nodes[-1].output],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(VENDOR, 1)], ir_version=10)


def scale_of(rng: np.random.Generator, name: str, dtype: type, size: int = 1) -> dict[str, Array]:
    """Scale `NAMEs` and zero point `NAMEz`, one number or one for each channel."""
    scale, middle = rng.uniform(0.01, 0.05, size).astype(F), 20 if dtype is np.uint8 else -5
    zero = np.full(size, 0 if size > 1 else middle, dtype)
    return {f"{name}s": scale if size > 1 else scale[0], f"{name}z": zero if size > 1 else zero[0]}


def whole(rng: np.random.Generator, dtype: type, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Of seven bits: with eight, ONNX Runtime's sums of two products saturate on processors without an instruction for them."""
    return rng.integers(-64, 64, shape).astype(np.int8)


def check(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> None:
    proto = network(nodes, inputs, constants)
    wanted = run(proto, inputs)
    assert write_out(proto.graph)
    assert not write_out(proto.graph)
    assert not any(node.op_type.startswith("Q") and node.op_type != "QuantizeLinear" for node in proto.graph.node)
    for name, array in run(proto, inputs).items():
        assert array.dtype == wanted[name].dtype
        if array.dtype.kind == "f":
            np.testing.assert_allclose(array, wanted[name], rtol=1e-5, atol=1e-4)
        else:
            difference = np.abs(array.astype(int) - wanted[name].astype(int))
            assert difference.max() <= 1
            assert np.count_nonzero(difference) <= max(1, 0.05 * difference.size)


dtypes = st.sampled_from([np.uint8, np.int8])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), dtypes, st.booleans(), st.booleans(), st.sampled_from([1, 2]))
def test_convolution(seed: int, dtype: type, channels: bool, bias: bool, group: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = {"x": whole(rng, dtype, 1, 4, 5, 6)}
    constants = {"w": weights(rng, 6, 4 // group, 3, 2)} | {"b": rng.integers(-2000, 2000, 6).astype(np.int32)}
    constants |= scale_of(rng, "x", dtype) | scale_of(rng, "w", np.int8, 6 if channels else 1) | scale_of(rng, "y", dtype)
    constants["ys"] = constants["ys"] * F(20)
    operands = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", *(["b"] if bias else [])]
    check([n("QLinearConv", operands, ["y"], "c", pads=[1, 0, 1, 1], strides=[1, 2], group=group)], inputs, constants)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**20),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(4,), (1,), (), (1, 4), None]),
    st.sampled_from([1.0, 0.5, 3.0]),
    st.booleans(),
)
def test_gemm(seed: int, stored: bool, turned: bool, bias: tuple[int, ...] | None, alpha: float, channels: bool) -> None:
    """Its bias is multiplied by alpha too, and may be one number for all channels."""
    rng = np.random.default_rng(seed)
    inputs = {"x": whole(rng, np.uint8, 3, 5)}
    constants = {"w": weights(rng, *((4, 5) if turned else (5, 4)))}
    constants |= scale_of(rng, "x", np.uint8) | scale_of(rng, "w", np.int8, 4 if channels else 1) | scale_of(rng, "y", np.uint8)
    constants["ys"] = constants["ys"] * F(10)
    if bias is not None:
        constants["b"] = rng.integers(-3000, 3000, bias).astype(np.int32)
    operands = ["x", "xs", "xz", "w", "ws", "wz", "b" if bias is not None else "", *(["ys", "yz"] if stored else [])]
    check([n("QGemm", operands, ["y"], "g", domain=VENDOR, alpha=alpha, transB=int(turned))], inputs, constants)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**20), st.booleans())
def test_matmul(seed: int, channels: bool) -> None:
    rng = np.random.default_rng(seed)
    inputs = {"x": whole(rng, np.uint8, 3, 5)}
    constants = {"w": weights(rng, 5, 4)} | scale_of(rng, "x", np.uint8) | scale_of(rng, "w", np.int8, 4 if channels else 1)
    constants |= scale_of(rng, "y", np.uint8)
    check([n("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], "m")], inputs, constants)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), dtypes, st.sampled_from(["QLinearAdd", "QLinearMul", "QLinearConcat"]))
def test_two_operands(seed: int, dtype: type, kind: str) -> None:
    rng = np.random.default_rng(seed)
    inputs = {"a": whole(rng, dtype, 1, 3, 4, 4), "b": whole(rng, dtype, 1, 3, 4, 4)}
    constants = scale_of(rng, "a", dtype) | scale_of(rng, "b", dtype) | scale_of(rng, "y", dtype)
    operands = ["a", "as", "az", "b", "bs", "bz"]
    attributes = {"axis": 1} if kind == "QLinearConcat" else {}
    order = ["ys", "yz", *operands] if kind == "QLinearConcat" else [*operands, "ys", "yz"]
    check([n(kind, order, ["y"], "o", domain=VENDOR, **attributes)], inputs, constants)


UNARY = {
    "QLinearAveragePool": {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    "QLinearGlobalAveragePool": {"channels_last": 0},
    "QLinearLeakyRelu": {"alpha": 0.1},
    "QLinearSigmoid": {},
}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**20), dtypes, st.sampled_from(sorted(UNARY)))
def test_one_operand(seed: int, dtype: type, kind: str) -> None:
    rng = np.random.default_rng(seed)
    constants = scale_of(rng, "x", dtype) | scale_of(rng, "y", dtype)
    check([n(kind, ["x", "xs", "xz", "ys", "yz"], ["y"], "o", domain=VENDOR, **UNARY[kind])], {"x": whole(rng, dtype, 1, 3, 6, 5)}, constants)


def test_channels_last_is_left_as_it_is() -> None:
    rng = np.random.default_rng(0)
    constants = scale_of(rng, "x", np.uint8) | scale_of(rng, "y", np.uint8)
    node = n("QLinearGlobalAveragePool", ["x", "xs", "xz", "ys", "yz"], ["y"], "o", domain=VENDOR, channels_last=1)
    assert not write_out(network([node], {"x": whole(rng, np.uint8, 1, 6, 5, 3)}, constants).graph)


def test_a_vendor_s_own_quantize_is_the_standard_s() -> None:
    inputs = {"x": np.linspace(-9, 9, 12, dtype=F)}
    constants = {"s": F(0.001), "z": np.int16(100)}
    nodes = [n("QuantizeLinear", ["x", "s", "z"], ["q"], domain=VENDOR), n("DequantizeLinear", ["q", "s", "z"], ["y"], domain=VENDOR)]
    proto = network(nodes, inputs, constants)
    wanted = run(proto, inputs)["y"]
    write_out(proto.graph)
    assert {node.domain for node in proto.graph.node} == {""}
    np.testing.assert_array_equal(run(proto, inputs)["y"], wanted)


def several_readers(last: Sequence[str]) -> onnx.ModelProto:
    constants = {"s": F(0.1), "z": np.uint8(10), "other": F(0.2)}
    nodes = [
        n("QuantizeLinear", ["x", "s", "z"], ["q"]),
        n("DequantizeLinear", ["q", "s", "z"], ["a"]),
        n("DequantizeLinear", ["q", "s", "z"], ["b"]),
        n("DequantizeLinear", ["q", "other", "z"], ["c"]),
        n("Relu", ["b"], ["r"]),
        n("Sum", ["a", "c", "r"], ["t"]),
        n("Identity", ["t"], last),
    ]
    return network(nodes, {"x": np.zeros((2, 3), F)}, constants)


def test_equal_floats_of_one_stored_tensor_become_one() -> None:
    proto, x = several_readers(["y"]), {"x": np.random.default_rng(0).normal(size=(2, 3)).astype(F)}
    wanted = run(proto, x)["y"]
    share_floats(proto.graph)
    assert [node.output[0] for node in proto.graph.node if node.op_type == "DequantizeLinear"] == ["a", "c"]
    np.testing.assert_array_equal(run(proto, x)["y"], wanted)


def test_a_float_that_is_handed_out_keeps_its_name() -> None:
    proto = several_readers(["y"])
    proto.graph.output.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, None))
    share_floats(proto.graph)
    assert [node.output[0] for node in proto.graph.node if node.op_type == "DequantizeLinear"] == ["a", "b", "c"]


ML = "ai.onnx.ml"


def pipeline(folder: Path, kind: int, factors: int) -> Path:
    """A Scaler, a layer, and a classifier's end."""
    rng = np.random.default_rng(0)
    nodes = [
        n("Scaler", ["x"], ["a"], "scaler", domain=ML, offset=rng.normal(size=factors).tolist(), scale=rng.normal(size=factors).tolist()),
        n("MatMul", ["a", "w"], ["b"]),
        n("Softmax", ["b"], ["c"]),
        n("ZipMap", ["c"], ["p"], "zip", domain=ML, classlabels_int64s=[7, 3, 5]),
    ]
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))
    weights = [numpy_helper.from_array(rng.normal(size=(4, 3)).astype(np.float32), "w")]
    graph = helper.make_graph(nodes, "pipeline", [helper.make_tensor_value_info("x", kind, [2, 4])], [helper.make_value_info("p", maps)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(ML, 1)], ir_version=8), folder / "p.onnx")
    return folder / "p.onnx"


@pytest.mark.parametrize("factors", [1, 4])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.DOUBLE])
def test_a_pipeline_computes_what_the_file_does(kind: int, factors: int, tmp_path: Path) -> None:
    path = pipeline(tmp_path, kind, factors)
    x = {"x": (normal(1, 2, 4) * 9).astype(helper.tensor_dtype_to_np_dtype(kind))}
    model = load_graph(path)
    wanted, found = Given(open_session(path, optimise=False)).run(x)["p"], run(model, x)["p"]
    assert wanted.shape == found.shape == (2, 3)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    kept = {node.op_type for node in model.graph if node.domain == ML}
    assert kept == ({"Scaler"} if kind == TensorProto.DOUBLE else set())


def test_a_tensor_of_unknown_rank_is_no_scalar(tmp_path: Path) -> None:
    """ONNX's inference knows no shape behind a Scaler, and ONNX Runtime shows such a tensor without axes."""
    model = load_graph(pipeline(tmp_path, TensorProto.DOUBLE, 4))
    (scaler,) = [node for node in model.graph if node.op_type == "Scaler"]
    assert scaler.outputs[0].shape is None
    assert scaler.outputs[0].dtype == ir.DataType.FLOAT


FACTS = Facts({"x": Known(TensorProto.FLOAT, (1, None, 8))}, {"x": "MatMul"}, {"last": np.array([5])})


def layer() -> Layer:
    return Layer(n("Fused", ["x", "", "z"], ["y", "", "sum"], "f", heads=2), FACTS)


def test_operands_and_results() -> None:
    given = layer()
    assert [given.operand(number) for number in range(4)] == ["x", "", "z", ""]
    assert (given.has(1, 3), given.has(1, 2)) == (False, True)
    assert (given.hands_out(1, 3), given.hands_out(1, 2)) == (False, True)
    assert given.given == {"heads": 2}


def test_facts_of_tensors() -> None:
    given = layer()
    assert (given.rank("x"), given.rank("z")) == (3, None)
    assert (given.element_type("x"), given.element_type("z")) == (TensorProto.FLOAT, TensorProto.UNDEFINED)


def test_a_total_leaves_out_tensors_that_are_not_there() -> None:
    given = layer()
    assert given.total(["", "a", ""], "sum") == "a"
    assert not given.nodes
    assert given.total(["a", "", "b", "c"], "sum", "y") == "y"
    assert [(node.op_type, [*node.input], [*node.output]) for node in given.nodes] == [
        ("Add", ["a", "b"], ["y/sum0"]),
        ("Add", ["y/sum0", "c"], ["y"]),
    ]


def test_constants_and_parts_are_called_after_the_result() -> None:
    given = layer()
    assert given.constant("axis", [-1], np.int64) == "y/axis"
    np.testing.assert_array_equal(numpy_helper.to_array(given.constants[0]), [-1])
    given.split("x", ["a", "b"], "halves", -1)
    (node,) = given.nodes
    assert (node.op_type, node.name, [*node.output]) == ("Split", "f/halves", ["a", "b"])
    assert {each.name: each.i for each in node.attribute} == {"axis": -1, "num_outputs": 2}
