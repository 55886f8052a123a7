"""What calibration looks at: tensors of floating-point numbers, of whatever size; sequences of them are none.

A padding that max pools drop sets no range, whatever its value; any other does.
"""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.quantisation import table
from toolchain.graph.quantisation.table import calibrate, sample_at, sample_count, seen_of

POOL = {"kernel_shape": [3, 3], "pads": [0, 0, 0, 0]}


def largest(tmp_path: Path, fill: float, *readers: object) -> float:
    nodes = [n("Pad", ["x", "p", "v"], ["a"]), *readers]
    graph = imported(tmp_path, nodes, constants={"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "v": F(fill)}, x=(1, 3, 6, 6))
    return calibrate(graph, {"x": np.clip(normal(2, 4, 1, 3, 6, 6), -2, 2)}).tensors["a"].spread.maximum


@pytest.mark.parametrize("fill", [-1e6, float(np.finfo(np.float32).min), -np.inf])
def test_only_maxima_read_it(tmp_path: Path, fill: float) -> None:
    assert largest(tmp_path, fill, n("MaxPool", ["a"], ["y"], **POOL)) <= 2.0


def test_a_value_that_may_be_the_maximum_counts(tmp_path: Path) -> None:
    assert largest(tmp_path, 50.0, n("MaxPool", ["a"], ["y"], **POOL)) == 50.0


def test_another_reader_counts(tmp_path: Path) -> None:
    assert (
        largest(
            tmp_path, -1e6, n("MaxPool", ["a"], ["m"], **POOL, strides=[1, 1]), n("AveragePool", ["a"], ["g"], **POOL), n("Add", ["m", "g"], ["y"])
        )
        == 1e6
    )


def test_sequences_are_passed_over(tmp_path: Path) -> None:
    nodes = [n("Relu", ["x"], ["r"]), n("SplitToSequence", ["r"], ["s"], axis=1), n("SequenceAt", ["s", "k"], ["y"])]
    loaded = load_graph(save(model(nodes, {"x": [1, 4]}, {"y": None}, {"k": np.int64(1)}), tmp_path))
    found = calibrate(loaded, {"x": np.array([[[-1, 2, 3, 4]]], np.float32)})
    assert {"x", "r"} <= found.tensors.keys()
    assert "s" not in found.tensors
    assert found.tensors["r"].spread.maximum == 4


@pytest.mark.filterwarnings("error")
def test_a_tensor_without_elements_says_nothing(tmp_path: Path) -> None:
    proto = model([n("Relu", ["x"], ["y"])], {"x": [1, 4]}, {"y": None})
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [0, 4]))
    found = calibrate(load_graph(save(proto, tmp_path), {"x.0": 0}), {"x": np.zeros((1, 0, 4), np.float32)})
    assert found.tensors["y"].spread.maximum == 0


def test_one_sample_of_all_inputs() -> None:
    samples = {"a": np.arange(6).reshape(3, 2), "b": np.arange(3)}
    assert sample_count(samples) == 3
    assert sample_count({}) == 1
    found = sample_at(samples, 2)
    assert {name: (array.shape, array.tolist()) for name, array in found.items()} == {"a": ((2,), [4, 5]), "b": ((), 2)}


@pytest.mark.parametrize("shape", [(2, 1, 3), (1, 2, 4, 5), (4,), (1, 6, 3, 2)])
def test_samples_counted_together_or_one_by_one(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = list(np.random.default_rng(len(shape)).normal(size=(7, *shape)).astype(np.float32))
    together = seen_of(arrays)
    monkeypatch.setattr(table, "GATHERED", 0)
    assert seen_of(arrays) == together


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4, 5), 1), ((2, 3, 4), 2), ((2, 3), 1), ((3,), None), ((2, 3, 4, 5, 6), 1)])
def test_channels_are_the_second_axis_and_of_rows_the_third(shape: tuple[int, ...], axis: int | None) -> None:
    arrays = list(normal(5, 3, *shape).astype(np.float32))
    others = tuple(each for each in range(len(shape)) if each != axis)
    found = seen_of(arrays).means
    assert np.allclose(found, np.mean([array.mean(others, dtype=np.float64) for array in arrays], axis=0), rtol=1e-3, atol=1e-6)
