"""Sessions: what ONNX Runtime rewrites must not change results."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.graph.onnx_builder import model, save
from toolchain.graph.session import open_session, run_session

n = helper.make_node


@pytest.mark.parametrize("optimise", [True, False])
def test_zeros_around_a_picture_count_in_a_max_pool(optimise: bool, tmp_path: Path) -> None:
    nodes = [n("Pad", ["x", "pads"], ["t"]), n("MaxPool", ["t"], ["y"], kernel_shape=[3, 3])]
    path = save(model(nodes, {"x": [1, 1, 3, 3]}, {"y": None}, {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}), tmp_path)
    found = run_session(open_session(path, optimise=optimise), {"x": np.full((1, 1, 3, 3), -1, np.float32)})["y"]
    assert found.tolist() == [[[[0, 0, 0], [0, -1, 0], [0, 0, 0]]]]
