"""A padding that max pools drop sets no range, whatever its value; any other does."""

from pathlib import Path

import numpy as np
import pytest

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import n
from toolchain.graph.calibration.table import calibrate

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
