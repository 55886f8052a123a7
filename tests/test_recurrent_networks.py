"""Networks with recurrent layers, from the file to the verdict: the machine has the products with the inputs, exact, the host the steps."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import toolchain
from tests.graph.imported import Array, run
from tests.graph.onnx_builder import model, save
from toolchain.graph.regions import region_calls, region_function
from toolchain.graph.store import read_stage
from toolchain.passes.fuse import sources_of

n = helper.make_node
MACHINES = ["dpuv3", "vta", "clib"]


def weights(seed: int, *shape: int) -> Array:
    """As frameworks draw them: of a size that keeps sums of the last axis near one."""
    return (np.random.default_rng(seed).uniform(-1, 1, shape) * shape[-1] ** -0.5).astype(np.float32)


@dataclass(frozen=True)
class Net:
    """samples: by seed and number. layer: the operator. product: the fused nodes of its products with the inputs."""

    proto: onnx.ModelProto
    samples: Callable[[int, int], Array]
    layer: str
    product: list[str]


def cnn_lstm() -> Net:
    """Convolutions over 24 steps of eight channels, and the last state of an LSTM."""
    nodes = [
        n("Conv", ["x", "k"], ["c"], "conv", pads=[1, 1]),
        n("Relu", ["c"], ["a"], "relu"),
        n("Transpose", ["a"], ["t"], "turn", perm=[2, 0, 1]),
        n("LSTM", ["t", "w", "r", "b"], ["", "h"], "lstm", hidden_size=12),
        n("Squeeze", ["h", "zero"], ["q"], "last"),
        n("Gemm", ["q", "v"], ["y"], "head", transB=1),
    ]
    known = {"k": weights(0, 16, 8, 3), "w": weights(1, 1, 48, 16), "r": weights(2, 1, 48, 12), "b": weights(3, 1, 96), "v": weights(4, 6, 12)}
    proto = model(nodes, {"x": [1, 8, 24]}, {"y": None}, known | {"zero": np.array([0])})
    return Net(proto, lambda seed, count: np.random.default_rng(seed).normal(size=(count, 1, 8, 24)).astype(np.float32), "lstm", ["lstm.inputs"])


def gru_tagger() -> Net:
    """Words in both directions, and a linear layer for each."""
    nodes = [
        n("Gather", ["words", "x"], ["e"], "words"),
        n("Transpose", ["e"], ["t"], "turn", perm=[1, 0, 2]),
        n("GRU", ["t", "w", "r", "b"], ["s"], "gru", hidden_size=8, direction="bidirectional", linear_before_reset=1),
        n("Transpose", ["s"], ["u"], "back", perm=[2, 0, 1, 3]),
        n("Reshape", ["u", "rows"], ["f"], "flat"),
        n("MatMul", ["f", "v"], ["y"], "head"),
    ]
    known = {"words": weights(0, 50, 16) * 4, "w": weights(1, 2, 24, 16), "r": weights(2, 2, 24, 8), "b": weights(3, 2, 48), "v": weights(4, 16, 8)}
    proto = model(nodes, {"x": [1, 12]}, {"y": None}, known | {"rows": np.array([1, 12, 16])})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return Net(proto, lambda seed, count: np.random.default_rng(seed).integers(0, 50, (count, 1, 12)), "gru", ["gru.inputs"])


def built(net: Net, folder: Path, target: str, place: str) -> toolchain.Compiled:
    path = save(net.proto, folder)
    return toolchain.compile(path, target, calibration=net.samples(0, 32), place=place, folder=folder / "build")


def on_machine(made: toolchain.Compiled) -> list[str]:
    """The names of the model's nodes in regions."""
    graph: ir.Model = read_stage(sorted((made.folder / "graph").glob("*-partition.onnx"))[0])
    return [name for call in region_calls(graph) for node in region_function(graph, call) for name in sources_of(node)]


def decibels(wanted: Array, found: Array) -> float:
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("make", [cnn_lstm, gru_tagger])
def test_the_products_with_the_inputs_run_on_the_machine(make: Callable[[], Net], target: str, tmp_path: Path) -> None:
    net = make()
    made = built(net, tmp_path, target, "all")
    assert {*net.product} <= {*on_machine(made)}
    verdict = made.verify()  # raises where a tensor differs
    assert "bit for bit" in str(verdict)
    explained = str(made.explain())
    assert "needs the state after the step before" in explained
    assert "multiply-accumulates a step" in explained
    loaded, samples = made.load(), net.samples(7, 8)
    wanted, found = (np.stack([answer({"x": x})["y"] for x in samples]) for answer in (lambda x: run(net.proto, x), loaded.run))
    assert 25 < decibels(wanted, found) < 60


def test_a_layer_whose_product_does_not_pay_is_the_file_s_own(tmp_path: Path) -> None:
    net = gru_tagger()
    made = built(net, tmp_path, "dpuv3", "pays")
    assert on_machine(made) == []
    assert "bit for bit" in str(made.verify())  # raises where an output differs
    for x in net.samples(7, 2):
        np.testing.assert_array_equal(run(net.proto, {"x": x})["y"], made.load().run({"x": x})["y"])
    explained = str(made.explain())
    assert "1 GRU" in explained
    assert "and the loop that is left 0.192 ms to start its steps" in " ".join(explained.split())
    assert "Scan" not in explained
