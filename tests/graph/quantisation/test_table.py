"""What calibration looks at: tensors of floating-point numbers, of whatever size; sequences of them are none.

A padding that max pools drop sets no range, whatever its value; any other does. A tensor that moves alone make of another has its range,
whichever of the two was seen.
"""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import model, n, save
from tests.graph.test_states import BY_HEADS, HEADS, ROWS, step
from toolchain.graph.importing.load import load_graph
from toolchain.graph.quantisation import table
from toolchain.graph.quantisation.ranges import Spread
from toolchain.graph.quantisation.table import SeenTensor, Table, calibrate, sample_at, sample_count, seen_of, with_moved
from toolchain.spec import on_cores

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


SEEN = SeenTensor(Spread(2.0, ((3, 1_000_000),), -1.0, 2.0), (0.5,))
MODEL = step(HEADS, [BY_HEADS, ROWS], [("Reshape", (1, 6, 2, 4)), BY_HEADS])


def test_before_moves_and_behind_them() -> None:
    found = with_moved(MODEL.graph, Table(1, {"x": SEEN, "y": SEEN}))
    assert {*found.tensors} == {"x", "enter0", "enter1", "made", "leave0", "y"}
    assert {each.spread for each in found.tensors.values()} == {SEEN.spread}
    assert {name for name, each in found.tensors.items() if each.means} == {"x", "y"}


def test_what_was_seen_stays_and_what_computes_is_no_move() -> None:
    table = Table(1, dict.fromkeys(("x", "enter0", "enter1", "made", "leave0", "y"), SEEN))
    assert with_moved(MODEL.graph, table) is table
    assert {*with_moved(MODEL.graph, Table(1, {"x": SEEN})).tensors} == {"x", "enter0", "enter1"}


def test_numbers_that_are_none_are_handed_on() -> None:
    found = with_moved(MODEL.graph, Table(1, {"y": SEEN}, ("x",)))
    assert found.unusable == ("enter0", "enter1", "x")
    assert "enter1" not in found.tensors


def test_one_processor_counts_as_two_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means are sums of reals, whose order is that of the samples."""
    graph = imported(tmp_path, [n("Relu", ["x"], ["r"]), n("Exp", ["r"], ["e"]), n("Mul", ["e", "x"], ["y"])], x=(1, 3, 40, 40))
    samples, found = {"x": normal(3, 5, 1, 3, 40, 40)}, list[Table]()
    for processors in (1, 2):
        monkeypatch.setattr(on_cores, "processors", lambda count=processors: count)
        found.append(calibrate(graph, samples))
    assert found[0] == found[1]
    assert found[0].samples == 5
