"""Small ONNX models for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT
PATH = Path("net.onnx")
n = helper.make_node


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Mapping[str, Sequence[int | str | None] | None],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    """A float model; constants become initializers."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def save(proto: onnx.ModelProto, folder: Path, name: str = "net.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def conv_net(seed: int = 0, opset: int = 13) -> onnx.ModelProto:
    """conv, batch norm, relu, pool, a shortcut, dropout, identity, flatten, dense; the batch is open."""
    rng = np.random.default_rng(seed)
    f = np.float32
    constants = {
        "w1": (rng.normal(size=(8, 3, 3, 3)) / 5).astype(f),
        "b1": rng.normal(size=8).astype(f),
        "s": rng.uniform(0.5, 1.5, 8).astype(f),
        "t": rng.normal(size=8).astype(f),
        "m": rng.normal(size=8).astype(f),
        "v": rng.uniform(0.5, 2, 8).astype(f),
        "w2": (rng.normal(size=(8, 8, 1, 1)) / 3).astype(f),
        "w3": (rng.normal(size=(10, 128)) / 11).astype(f),
        "b3": rng.normal(size=10).astype(f),
    }
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        n("BatchNormalization", ["c1", "s", "t", "m", "v"], ["n1"], "bn1"),
        n("Relu", ["n1"], ["r1"], "relu1"),
        n("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        n("Conv", ["p1", "w2"], ["c2"], "conv2"),
        n("Add", ["c2", "p1"], ["a1"], "add1"),
        n("Relu", ["a1"], ["r2"], "relu2"),
        n("Identity", ["r2"], ["i1"], "identity1"),
        n("Dropout", ["i1"], ["d1"], "drop1"),
        n("Flatten", ["d1"], ["f1"], "flat1"),
        n("Gemm", ["f1", "w3", "b3"], ["y"], "dense1", transB=1),
    ]
    return model(nodes, {"x": ["batch", 3, 8, 8]}, {"y": ["batch", 10]}, constants, opset)
