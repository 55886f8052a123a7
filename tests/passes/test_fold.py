"""Nodes that depend on no input are computed once, unless they are too large, random or handed out; layers take in the factors behind them.

Folding keeps results: in double precision the error of the folded network stays that of float32.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import conv_net, model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.passes.context import Context
from toolchain.passes.fold import FoldBatchNorm, FoldConstants, foldable
from toolchain.passes.pipeline import run_passes
from toolchain.passes.simplify import RemoveDead, RemoveIdentity

LARGE = normal(0, 40, 40)
"""More than the import keeps inline, so that it does not fold what depends on it."""


def test_a_chain_of_large_constants(tmp_path: Path) -> None:
    nodes = [
        n("Transpose", ["k"], ["t"]),
        n("MatMul", ["k", "t"], ["p"]),
        n("Relu", ["p"], ["r"]),
        n("MatMul", ["x", "r"], ["a"]),
        n("Add", ["a", "t"], ["y"]),
    ]
    graph, x = imported(tmp_path, nodes, (2, 40, 40), {"k": LARGE}), {"x": normal(1, 2, 40, 40)}
    wanted = run(graph, x)["y"]
    assert len(graph.graph) == 5
    result = FoldConstants().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["MatMul", "Add"]
    assert len(result.graph.initializers) == 2
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


@pytest.mark.parametrize("max_bytes", [40 * 40 * 8 - 1, 40 * 40 * 8])
def test_results_that_are_too_large_are_left(max_bytes: int, tmp_path: Path) -> None:
    nodes = [n("Exp", ["k"], ["e"]), n("ReduceSum", ["e"], ["s"]), n("Add", ["x", "s"], ["y"])]
    result = FoldConstants(max_bytes=max_bytes).run(imported(tmp_path, nodes, (1, 1), {"k": LARGE}), Context())
    assert len(result.graph) == (3 if max_bytes % 8 else 1)


def test_random_numbers_and_outputs_stay(tmp_path: Path) -> None:
    nodes = [n("Dropout", ["k"], ["d"]), n("Exp", ["k"], ["e"]), n("Sum", ["x", "d", "e"], ["t"]), n("Split", ["t"], ["y", "z"], num_outputs=2)]
    result = FoldConstants().run(imported(tmp_path, nodes, (40, 40), {"k": LARGE}), Context())
    assert [node.op_type for node in result.graph] == ["Dropout", "Sum", "Split"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=3), st.sampled_from([None, F(2.5), np.int64(-3), np.bool_(True)]))
def test_fills(tmp_path_factory: pytest.TempPathFactory, shape: list[int], value: np.generic | None) -> None:
    given_ = {} if value is None else {"value": helper.make_tensor("v", helper.np_dtype_to_tensor_dtype(value.dtype), [1], [value])}
    fill = [n("ConstantOfShape", ["s"], ["f"], **given_), n("Cast", ["f"], ["c"], to=1), n("Flatten", ["c"], ["g"], axis=0)]
    nodes = [*fill, n("Gemm", ["g", "g"], ["p"], transB=1), n("Add", ["x", "p"], ["y"])]
    graph, x = imported(tmp_path_factory.mktemp("f"), nodes, (1, 1), {"s": np.array(shape)}), {"x": normal(0, 1, 1)}
    wanted = run(graph, x)["y"]
    np.testing.assert_array_equal(run(FoldConstants().run(graph, Context()), x)["y"], wanted)


def test_a_fill_beyond_the_bound_stays(tmp_path: Path) -> None:
    nodes = [n("ConstantOfShape", ["s"], ["f"]), n("ReduceMax", ["f"], ["m"]), n("Add", ["x", "m"], ["y"])]
    result = FoldConstants(max_bytes=1 << 22).run(imported(tmp_path, nodes, (1, 1), {"s": np.array([1025, 1024])}), Context())
    assert [node.op_type for node in result.graph] == ["ConstantOfShape", "ReduceMax", "Add"]
    kept = FoldConstants(max_bytes=1 << 23).run(imported(tmp_path, nodes, (1, 1), {"s": np.array([1025, 1024])}), Context())
    assert [node.op_type for node in kept.graph] == ["Add"]


@pytest.mark.parametrize(
    ("bias", "taken"), [((), True), ((1,), True), ((4,), True), ((1, 4), True), ((3, 1), False), ((3, 4), False), ((1, 1), True), (None, True)]
)
def test_a_dense_layer_takes_a_factor_in_where_its_bias_stands_along_the_channels(bias: tuple[int, ...] | None, taken: bool, tmp_path: Path) -> None:
    constants = {"w": normal(0, 5, 4), "k": np.array([1, 2, 3, 4], F)} | ({} if bias is None else {"b": normal(1, *bias)})
    nodes = [n("Gemm", ["x", "w", *(["b"] if bias is not None else [])], ["g"], "dense", alpha=0.5), n("Mul", ["g", "k"], ["y"], "scale")]
    graph, x = imported(tmp_path, nodes, (3, 5), constants), {"x": normal(2, 3, 5)}
    wanted = run(graph, x)["y"]
    assert foldable(next(iter(graph.graph)).outputs[0]) == taken
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == (["Gemm"] if taken else ["Gemm", "Mul"])
    np.testing.assert_allclose(run(result, x)["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "first",
    [n("ConvTranspose", ["x", "w"], ["c"]), n("Relu", ["x"], ["c"]), n("Conv", ["x", "x"], ["c"]), n("Gemm", ["f", "f"], ["c"], transB=1, beta=0.5)],
)
def test_other_makers_take_nothing_in(first: object, tmp_path: Path) -> None:
    nodes = [n("Flatten", ["x"], ["f"]), first, n("Identity", ["c"], ["y"])]
    graph = imported(tmp_path, nodes, (4, 4, 4, 4), {"w": normal(0, 4, 4, 1, 1)})  # type: ignore[list-item]
    maker = next(node for node in graph.graph if node.outputs[0].name == "c")
    assert not foldable(maker.outputs[0])


def test_a_tensor_that_others_read_is_not_changed(tmp_path: Path) -> None:
    nodes = [n("Conv", ["x", "w"], ["c"]), n("Mul", ["c", "k"], ["m"]), n("Add", ["c", "m"], ["y"])]
    graph, x = imported(tmp_path, nodes, constants={"w": normal(0, 3, 3, 1, 1), "k": F(2)}), {"x": normal(1, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert len(result.graph) == 3
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


def test_those_that_follow_no_layer_become_one(tmp_path: Path) -> None:
    known = {"s": normal(0, 3), "o": normal(1, 3), "m": normal(2, 3), "v": np.abs(normal(3, 3)), "k": normal(4, 3, 1, 1), "d": normal(5, 3, 1, 1)}
    norm = n("BatchNormalization", ["r", "s", "o", "m", "v"], ["b"])
    nodes = [n("Relu", ["x"], ["r"]), norm, n("Mul", ["b", "k"], ["p"]), n("Add", ["p", "d"], ["q"]), n("Relu", ["q"], ["y"])]
    graph, x = imported(tmp_path, nodes, constants=known), {"x": normal(6, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["Relu", "BatchNormalization", "Relu"]
    np.testing.assert_allclose(run(result, x)["y"], wanted, rtol=1e-5, atol=1e-6)


def test_one_that_others_read_stays_apart(tmp_path: Path) -> None:
    nodes = [n("Relu", ["x"], ["r"]), n("Mul", ["r", "k"], ["p"]), n("Add", ["p", "k"], ["q"]), n("Add", ["p", "q"], ["y"])]
    graph, x = imported(tmp_path, nodes, constants={"k": normal(0, 3, 1, 1)}), {"x": normal(1, 1, 3, 4, 4)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["Relu", "Mul", "Add", "Add"]
    np.testing.assert_array_equal(run(result, x)["y"], wanted)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from([1, 2, 4]), st.booleans(), st.booleans())
def test_the_layer_after_takes_a_scale_and_an_offset_in(
    tmp_path_factory: pytest.TempPathFactory, seed: int, group: int, biased: bool, pad: bool
) -> None:
    rng = np.random.default_rng(seed)
    known = {"k": rng.uniform(0.6, 2, (4, 1, 1)).astype(F), "w": rng.normal(size=(8, 4 // group, 3, 3)).astype(F), "b": rng.normal(size=8).astype(F)}
    known |= {} if pad else {"o": rng.normal(size=(4, 1, 1)).astype(F)}
    affine = [n("Mul", ["r", "k"], ["p"], "scale"), *([] if pad else [n("Add", ["p", "o"], ["q"], "offset")])]
    layer = n("Conv", ["p" if pad else "q", "w", *(["b"] if biased else [])], ["y"], "layer", group=group, pads=[int(pad)] * 4)
    graph = imported(tmp_path_factory.mktemp("f"), [n("Relu", ["x"], ["r"]), *affine, layer], (2, 4, 5, 5), known)
    x = {"x": rng.normal(size=(2, 4, 5, 5)).astype(F)}
    wanted = run(graph, x)["y"]
    result = FoldBatchNorm().run(graph, Context())
    assert [node.op_type for node in result.graph] == ["Relu", "Conv"]
    np.testing.assert_allclose(run(result, x)["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("factors", "offset", "pads"), [([1, 2, 3], 0.5, 1), ([1, 2, 8], 0.0, 0), ([1, 2, 0], 0.5, 0), ([1, float("inf"), 2], 0.0, 0)]
)
def test_zeros_around_and_unlike_factors_keep_a_scale_apart(factors: list[float], offset: float, pads: int, tmp_path: Path) -> None:
    known = {"k": np.array(factors, F).reshape(3, 1, 1), "o": np.full((3, 1, 1), offset, F), "w": normal(0, 4, 3, 3, 3)}
    nodes = [n("Relu", ["x"], ["r"]), n("Mul", ["r", "k"], ["p"]), n("Add", ["p", "o"], ["q"]), n("Conv", ["q", "w"], ["y"], pads=[pads] * 4)]
    result = FoldBatchNorm().run(imported(tmp_path, nodes, (1, 3, 4, 4), known), Context())
    assert len(result.graph) > 2


PASSES = (FoldConstants(), RemoveIdentity(), FoldBatchNorm(), RemoveDead())
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def folded(proto: onnx.ModelProto, folder: Path, x: dict[str, np.ndarray]) -> tuple[list[str], dict[str, np.ndarray], dict[str, np.ndarray]]:
    path = save(proto, folder)
    result = run_passes(load_graph(path, {"batch": 1}), PASSES, Context(str(path)))
    stage = Store(folder / "out").save("folded", result)
    return (
        [node.op_type for node in result.graph],
        run_session(open_session(stage, optimise=False), x),
        run_session(open_session(path, optimise=False), x),
    )


def test_the_whole_network(tmp_path: Path) -> None:
    x = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
    kinds, found, wanted = folded(conv_net(), tmp_path, x)
    assert kinds == ["Conv", "Relu", "MaxPool", "Conv", "Add", "Relu", "Flatten", "Gemm"]
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from(["Conv", "Gemm"]),
    st.lists(st.sampled_from(["bn", "Mul", "Add", "Sub", "Div"]), min_size=1, max_size=4),
)
def test_chains_of_per_channel_operators(tmp_path_factory: pytest.TempPathFactory, seed: int, first: str, chain: list[str]) -> None:
    rng, f = np.random.default_rng(seed), np.float32
    dense = first == "Gemm"
    constants = {"w": rng.normal(size=(4, 6) if dense else (4, 3, 3, 3)).astype(f)}
    nodes = [n(first, ["x", "w"], ["t"], "first", **({"transB": 1} if dense else {}))]
    last, shape = "t", ([1, 6] if dense else [1, 3, 6, 6])
    for number, kind in enumerate(chain):
        names = [f"{kind}{number}.{part}" for part in range(4)]
        for name in names[: 4 if kind == "bn" else 1]:
            values = rng.uniform(0.5, 2, 4).astype(f)
            constants[name] = values if kind == "bn" or dense else values.reshape(4, 1, 1)
        operands = names if kind == "bn" else names[:1]
        nodes.append(n("BatchNormalization" if kind == "bn" else kind, [last, *operands], [f"o{number}"], f"n{number}"))
        last = f"o{number}"
    out = [1, 4] if dense else [1, 4, 4, 4]
    x = {"x": rng.normal(size=shape).astype(f)}
    kinds, found, wanted = folded(
        model(nodes, {"x": ["batch", *shape[1:]]}, {last: ["batch", *out[1:]]}, constants), tmp_path_factory.mktemp("fold"), x
    )
    assert kinds == ["Gemm" if dense else "Conv"]
    np.testing.assert_allclose(found[last], wanted[last], rtol=1e-4, atol=1e-4)


def test_shape_arithmetic_is_folded_away(tmp_path: Path) -> None:
    nodes = [
        n("Shape", ["x"], ["s"]),
        n("Gather", ["s", "zero"], ["b"]),
        n("Unsqueeze", ["b", "zero1"], ["b1"]),
        n("Concat", ["b1", "rest"], ["target"], axis=0),
        n("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "zero1": np.array([0]), "rest": np.array([-1])}
    x = {"x": np.random.default_rng(0).normal(size=(1, 3, 4)).astype(np.float32)}
    kinds, found, wanted = folded(model(nodes, {"x": ["batch", 3, 4]}, {"y": ["batch", 12]}, constants), tmp_path, x)
    assert kinds == ["Reshape"]
    np.testing.assert_array_equal(found["y"], wanted["y"])


@pytest.mark.parametrize("name", ["resnet50", "squeezenet", "inception_v2"])
def test_light_models_fold(name: str) -> None:
    result = run_passes(load_graph(LIGHT / f"light_{name}.onnx"), PASSES, Context())
    assert {node.op_type for node in result.graph} <= {
        "Conv", "Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "Add", "Sum", "Gemm", "Softmax", "Reshape", "Flatten", "Concat"
    }  # fmt: skip


def test_a_large_external_constant_is_folded(tmp_path: Path) -> None:
    weights = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    (tmp_path / "w.bin").write_bytes(weights.tobytes())
    nodes = [n("Transpose", ["w"], ["t"], "turn"), n("MatMul", ["x", "t"], ["y"], "product")]
    proto = model(nodes, {"x": ["batch", 32]}, {"y": ["batch", 16]})
    tensor = onnx.TensorProto(name="w", dims=weights.shape, data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    proto.graph.initializer.append(tensor)
    x = {"x": np.random.default_rng(0).normal(size=(1, 32)).astype(np.float32)}
    kinds, found, wanted = folded(proto, tmp_path, x)
    assert kinds == ["MatMul"]
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-5)
