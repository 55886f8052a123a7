"""A network of floating point on `graphengine`, built once, with an operator that the engine does not take."""

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
    """One input 'x' [2, 3, 8, 8]; two outputs, the second in the middle. CumSum stays on the host."""
    rng, n = np.random.default_rng(3), helper.make_node
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(F), "b": rng.normal(size=4).astype(F), "shape": np.array([2, 64]), "axis": np.array(1),
        "low": np.array(-1, F), "high": np.array(2.5, F), "m": rng.normal(size=(64, 5)).astype(F), "same": rng.normal(size=4).astype(F),
    }  # fmt: skip
    nodes = [
        n("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        n("Clip", ["c", "low", "high"], ["k"], "clip"),
        n("LeakyRelu", ["k"], ["l"], "leaky", alpha=0.1),
        n("Reshape", ["l", "shape"], ["r"], "rows"),
        n("CumSum", ["r", "axis"], ["s"], "sums"),
        n("MatMul", ["s", "m"], ["p"], "product"),
        n("Softmax", ["p"], ["y"], "softmax", axis=1),
    ]
    return model(nodes, {"x": [2, 3, 8, 8]}, {"y": [2, 5], "l": [2, 4, 4, 4]}, constants)


@cache
def engine() -> Backend:
    return Backend(Target("graphengine").machine, {})


@cache
def built() -> Compiled:
    return compile_network(floats_network(), "floats", Target("graphengine"), samples(2))


def samples(count: int) -> NDArray[Any]:
    return np.random.default_rng(4).normal(size=(count, 2, 3, 8, 8)).astype(F)


def regions() -> list[GraphRegion]:
    found = [engine().read(built().partitioned, call) for call in region_calls(built().partitioned)]
    return [region for region in found if isinstance(region, GraphRegion)]
