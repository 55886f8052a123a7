"""Which pixels a window's taps meet."""

import numpy as np
from onnx import helper

from toolchain.models.geometry import Taps, attribute, taps_of

X = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)


def test_taps_meet_every_stride_of_the_padded_image() -> None:
    views = list(Taps((2, 2), (2, 3), (1, 0, 0, 1), (1, 1), (2, 2)).views(X, -1))
    assert [view[0, 0].tolist() for view in views] == [
        [[-1, -1], [4, 7]],
        [[-1, -1], [5, -1]],
        [[0, 3], [8, 11]],
        [[1, -1], [9, -1]],
    ]


def test_dilated_taps_lie_apart() -> None:
    views = list(Taps((1, 2), (1, 1), (0, 0, 0, 0), (1, 3), (3, 1)).views(X, 0))
    assert [view[0, 0].ravel().tolist() for view in views] == [[0, 4, 8], [3, 7, 11]]


def test_a_last_window_may_hang_over_the_edge() -> None:
    views = list(Taps((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (2, 2)).views(X, -5))
    assert views[2][0, 0].tolist() == [[4, 6], [-5, -5]]


def test_windows_are_read_from_nodes() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 2])
    assert taps_of(node, attribute(node, "kernel_shape", ()), (1, 1, 5, 6)) == Taps((3, 2), (2, 1), (1, 0, 1, 2), (1, 1), (5, 6))
    assert attribute(node, "ceil_mode", 0) == 0
