"""A network of floating point on `clib32`, built once, all of it on the machine."""

from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from bench.in_process import Compiled, Target
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from toolchain.graph.regions import GraphRegion, region_calls
from toolchain.schedule.backend import Backend

F = np.float32


def floats_network() -> onnx.ModelProto:
    """One input 'x' [1, 6, 9, 10]; two outputs, the second in the middle."""
    rng, n = np.random.default_rng(3), helper.make_node
    constants = {
        "w": rng.normal(size=(8, 3, 3, 3)).astype(F), "b": rng.normal(size=8).astype(F), "deep": rng.normal(size=(8, 1, 3, 3)).astype(F),
        "s": rng.normal(size=8).astype(F), "v": rng.uniform(1, 2, 8).astype(F),
        "m": rng.normal(size=(7, 5)).astype(F), "c": rng.normal(size=7).astype(F),
        "shape": np.array([1, 5]), "first": np.array([3]), "stop": np.array([99]), "last": np.array([-1]),
    }  # fmt: skip
    nodes = [
        n("Conv", ["x", "w", "b"], ["k"], "conv", group=2, auto_pad="SAME_UPPER", strides=[2, 2]),
        n("BatchNormalization", ["k", "s", "b", "s", "v"], ["n"], "norm"),
        n("LeakyRelu", ["n"], ["l"], "leaky", alpha=0.1),
        n("Conv", ["l", "deep"], ["d"], "deep", group=8, pads=[1, 1, 1, 1]),
        n("AveragePool", ["l"], ["p"], "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        n("Concat", ["d", "p"], ["j"], "join", axis=1),
        n("Transpose", ["j"], ["t"], "turn", perm=[0, 2, 3, 1]),
        n("MaxPool", ["d"], ["y2"], "largest", kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2]),
        n("Slice", ["t", "first", "stop", "last"], ["u"], "cut"),
        n("ReduceMean", ["u", "last"], ["q"], "row"),
        n("Sub", ["u", "q"], ["z"], "centred"),
        n("GlobalMaxPool", ["z"], ["g"], "most"),
        n("Reshape", ["g", "shape"], ["r"], "flat"),
        n("Gemm", ["r", "m", "c"], ["e"], "dense", transB=1),
        n("Softmax", ["e"], ["y"], "softmax", axis=1),
    ]
    return model(nodes, {"x": [1, 6, 9, 10]}, {"y": [1, 7], "y2": [1, 8, 3, 3]}, constants)


@cache
def built() -> Compiled:
    return compile_network(floats_network(), "floats", Target("clib32"), samples(2))


def samples(count: int) -> NDArray[Any]:
    return np.random.default_rng(4).normal(size=(count, 1, 6, 9, 10)).astype(F)


def region() -> GraphRegion:
    (call,) = region_calls(built().partitioned)
    found = Backend(Target("clib32").machine, {}).read(built().partitioned, call)
    assert isinstance(found, GraphRegion)
    return found
