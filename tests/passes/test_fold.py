"""Folding keeps results: in double precision the error of the folded network stays that of float32."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.onnx_builder import conv_net, model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.passes.context import Context
from toolchain.passes.fold_batch_norm import FoldBatchNorm
from toolchain.passes.fold_constants import FoldConstants
from toolchain.passes.runner import run_passes
from toolchain.passes.simplify import RemoveDead, RemoveIdentity

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
