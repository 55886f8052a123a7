"""A network of every kind of operation that `clib` has, built for it once, and what tests ask of its bundle."""

from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from bench.in_process import Compiled, Target
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from toolchain.runtime.executor import open_bundle
from toolchain.schedule.backend import Backend
from toolchain.verify.cosim import RecordedRun, RunRecorder

F = np.float32
SHAPE = (1, 3, 12, 10)


def kinds_network(softmax: bool = False) -> onnx.ModelProto:
    """One input 'x' [1, 3, 12, 10], one output 'y' [1, 5]; windows over edges, a depthwise layer, parts of a concatenation. softmax: at the end."""
    rng, n = np.random.default_rng(5), helper.make_node

    def weights(*shape: int) -> NDArray[Any]:
        return (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(F)

    constants = {
        "w1": weights(18, 3, 3, 3), "w2": weights(18, 1, 3, 3), "w3": weights(7, 18, 1, 1), "w4": weights(18, 25, 3, 2), "w5": weights(5, 18),
        "b1": weights(18, 1).ravel(), "roi": np.zeros(0, F), "scales": np.array([1, 1, 2, 2], F),
    }  # fmt: skip
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["a"], "conv", pads=[1, 1, 1, 1], strides=[2, 1]),
        n("Relu", ["a"], ["a_relu"], "relu"),
        n("Conv", ["a_relu", "w2"], ["d"], "depthwise", group=18, pads=[2, 2, 2, 2], dilations=[2, 2]),
        n("Sigmoid", ["d"], ["s"], "gate"),
        n("Mul", ["s", "a_relu"], ["m"], "gated"),
        n("Conv", ["m", "w3"], ["c"], "narrow"),
        n("Add", ["m", "d"], ["sum"], "sum"),
        n("Concat", ["c", "sum"], ["wide"], "wide", axis=1),
        n("MaxPool", ["wide"], ["p"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        n("Resize", ["p", "roi", "scales"], ["up"], "up", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        n("Conv", ["up", "w4"], ["e"], "last"),
        n("AveragePool", ["e"], ["av"], "average", kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1),
        n("GlobalAveragePool", ["av"], ["g"], "mean"),
        n("Flatten", ["g"], ["f"], "flat"),
        n("Gemm", ["f", "w5"], ["l" if softmax else "y"], "logits", transB=1),
        *([n("Softmax", ["l"], ["y"], "softmax")] if softmax else []),
    ]
    return model(nodes, {"x": list(SHAPE)}, {"y": [1, 5]}, constants)


def plain_network(wide: bool = False) -> onnx.ModelProto:
    """One input 'x' [1, 3, 12, 10], one output 'y' [1, 5], of operations that every machine has. wide: a first kernel of 5x5 with stride 2."""
    size, step = (5, 2) if wide else (3, 1)
    rng, n = np.random.default_rng(5), helper.make_node

    def weights(*shape: int) -> NDArray[Any]:
        return (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(F)

    nodes = [
        n("Conv", ["x", "w1", "b1"], ["a"], "conv", pads=[size // 2] * 4, strides=[2, step]),
        n("Relu", ["a"], ["r"], "relu"),
        n("Conv", ["r", "w2"], ["c"], "one"),
        n("Add", ["c", "r"], ["s"], "sum"),
        n("MaxPool", ["s"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        n("GlobalAveragePool", ["p"], ["g"], "mean"),
        n("Flatten", ["g"], ["f"], "flat"),
        n("Gemm", ["f", "w3"], ["y"], "logits", transB=1),
    ]
    constants = {"w1": weights(18, 3, size, size), "b1": weights(18, 1).ravel(), "w2": weights(18, 18, 1, 1), "w3": weights(5, 18)}
    return model(nodes, {"x": list(SHAPE)}, {"y": [1, 5]}, constants)


@cache
def plain(target: str, wide: bool = False) -> Compiled:
    """The plain network for a machine, loaded."""
    return compile_network(plain_network(wide), "plain", Target(target), pictures(4))


@cache
def clib() -> Backend:
    target = Target("clib")
    return Backend(target.machine, target.kernels)


@cache
def compiled(softmax: bool = False) -> Compiled:
    """The network in a bundle, loaded."""
    return compile_network(kinds_network(softmax), "kinds", Target("clib"), pictures(4))


def pictures(count: int) -> NDArray[Any]:
    """Samples [count, 1, 3, 12, 10]."""
    return np.random.default_rng(2).normal(size=(count, *SHAPE)).astype(F)


def recorded(target: str) -> RecordedRun:
    """The plain network's run on a machine, on one picture."""
    recorder = RunRecorder()
    open_bundle(plain(target).bundle, list(plain(target).executor.machines.values()), recorder).run({"x": pictures(1)[0]})
    (run,) = recorder.runs.values()
    return run
