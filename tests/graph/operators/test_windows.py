"""Padding that is written out gives the size and the values of automatic padding, for any window."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.graph.imported import imported, normal, run
from tests.graph.onnx_builder import model
from toolchain.graph.operators.windows import pads_of, rounds_up, window_of

n = helper.make_node
Pair = tuple[int, int]
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


def a_size(data: st.DataObject, reach: int, begin: int, end: int) -> int:
    return data.draw(st.integers(max(reach - begin - end, 1), 9))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]), pairs, pairs, pairs, st.data())
def test_a_convolution_with_its_padding_written_out(
    tmp_path_factory: pytest.TempPathFactory, mode: str, kernel: Pair, strides: Pair, dilations: Pair, data: st.DataObject
) -> None:
    if mode.startswith("SAME"):
        dilations = (1, 1)  # ONNX Runtime refuses others
    pads = data.draw(st.tuples(*[st.integers(0, 2)] * 4)) if mode == "NOTSET" else (0, 0, 0, 0)
    size = tuple(a_size(data, (kernel[k] - 1) * dilations[k] + 1, pads[k], pads[k + 2]) for k in range(2))
    given_ = {"auto_pad": mode, "strides": strides, "dilations": dilations} | ({"pads": pads} if mode == "NOTSET" else {})
    w = normal(1, 2, 2, *kernel)
    graph = imported(tmp_path_factory.mktemp("w"), [n("Conv", ["x", "w"], ["y"], **given_)], (1, 2, *size), {"w": w})
    x = {"x": normal(0, 1, 2, *size)}
    found = pads_of(next(iter(graph.graph)), kernel, strides, dilations)
    plain = model([n("Conv", ["x", "w"], ["y"], pads=found, strides=strides, dilations=dilations)], {"x": x["x"].shape}, {"y": None}, {"w": w})
    np.testing.assert_array_equal(run(plain, x)["y"], run(graph, x)["y"])


def test_the_window_of_a_pool(tmp_path_factory: pytest.TempPathFactory) -> None:
    nodes = [n("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], auto_pad="SAME_LOWER", strides=[2, 2])]
    pool = next(iter(imported(tmp_path_factory.mktemp("w"), nodes, (1, 2, 6, 5)).graph))
    assert window_of(pool, (3, 2)) == {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 1, 0, 0), "dilations": (1, 1)}
    assert not rounds_up(pool)
