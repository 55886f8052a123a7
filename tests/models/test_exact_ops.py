"""Convolutions of whole numbers against sums written out; statistics against numpy's.

SplitMix64 by its published sequence; the bell's moments; positions do not depend on how much is asked for.
"""

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from toolchain.models import exact_ops
from toolchain.models.exact_ops import BELL_SQUARE, Taps, attribute, bell, key_of, signed_bytes, taps_of, words
from toolchain.models.samples import seeded_samples


def test_words_are_splitmix64s_own_sequence() -> None:
    assert words(1234567, 0, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_words_value_depends_on_its_position_alone() -> None:
    assert words(7, 5, 3).tolist() == words(7, 0, 8)[5:].tolist()


def test_bytes_are_the_words_lowest_byte_first() -> None:
    first = int(words(3, 0, 1)[0])
    assert signed_bytes(3, 3).view(np.uint8).tolist() == [first >> shift & 255 for shift in (0, 8, 16)]


def test_the_bell_has_the_moments_it_states() -> None:
    values = bell(1, 400_000).astype(np.float64)
    assert abs(values.mean()) < 1
    assert abs((values**2).mean() / BELL_SQUARE - 1) < 0.01
    assert abs((values**4).mean() / BELL_SQUARE**2 - 2.7) < 0.05  # a sum of four flat ones has 3 - 6 / 5 / 4
    assert values.min() >= -510
    assert values.max() <= 510


def test_the_bell_is_the_sum_of_four_bytes_minus_their_mean() -> None:
    one, other = (int(word) for word in words(9, 0, 2))
    expected = [sum(word >> 16 * lane + shift & 255 for word in (one, other) for shift in (0, 8)) - 510 for lane in range(4)]
    assert bell(9, 4).tolist() == expected


def test_other_names_give_other_keys() -> None:
    assert len({key_of(0, "a"), key_of(1, "a"), key_of(0, "b"), key_of("0a")}) == 4


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


def _written_out(x: np.ndarray, weights: np.ndarray, groups: int, taps: Taps) -> np.ndarray:
    out, depth = weights.shape[:2]
    result = np.zeros((len(x), out, *taps.out), np.int64)
    for b, o, row, column in itertools.product(range(len(x)), range(out), range(taps.out[0]), range(taps.out[1])):
        for i, (tap, (u, v)) in itertools.product(range(depth), enumerate(itertools.product(*map(range, taps.kernel)))):
            y, z = row * taps.stride[0] - taps.pads[0] + u * taps.dilation[0], column * taps.stride[1] - taps.pads[1] + v * taps.dilation[1]
            if 0 <= y < x.shape[2] and 0 <= z < x.shape[3]:
                result[b, o, row, column] += int(weights[o, i, tap]) * int(x[b, o // (out // groups) * depth + i, y, z])
    return result


@pytest.mark.parametrize(
    ("channels", "out", "groups", "taps"),
    [
        (3, 4, 1, Taps((3, 2), (2, 1), (1, 0, 1, 1), (1, 1), (3, 7))),
        (6, 4, 2, Taps((2, 2), (1, 1), (0, 0, 0, 0), (2, 3), (4, 4))),
        (5, 5, 5, Taps((3, 3), (1, 2), (1, 1, 1, 1), (1, 1), (6, 4))),
        (400, 2, 1, Taps((1, 1), (1, 1), (0, 0, 0, 0), (1, 1), (6, 7))),
    ],
)
def test_convolutions_are_the_sums_written_out(channels: int, out: int, groups: int, taps: Taps) -> None:
    x = (bell(1, 2 * channels * 42) // 8).astype(np.float32).reshape(2, channels, 6, 7)
    weights = exact_ops.coarse_weights(bell(2, out * channels // groups * taps.kernel[0] * taps.kernel[1])).reshape(out, channels // groups, -1)
    assert (exact_ops.convolve(x, weights, groups, taps) == _written_out(x, weights, groups, taps)).all()


@pytest.mark.parametrize("depth", [1, 4608, 25088])
def test_inputs_are_coarse_enough_that_no_sum_of_products_can_be_inexact(depth: int) -> None:
    x = bell(3, 5000).astype(np.float32)
    coarse, unit = exact_ops.coarse_input(x, depth)
    assert (coarse == np.rint(coarse)).all()
    assert np.abs(coarse).max() * 64 * depth <= 1 << 24
    assert np.abs(exact_ops.coarse_weights(bell(4, 5000))).max() <= 64
    inside = np.abs(x) < np.abs(coarse).max() * unit
    assert np.abs(coarse * unit - x)[inside].max() <= unit / 2


def test_nothing_but_zeros_stays_zeros() -> None:
    coarse, unit = exact_ops.coarse_input(np.zeros((2, 3), np.float32), 3)
    assert not coarse.any()
    assert unit > 0


def test_statistics_of_channels() -> None:
    y = bell(5, 2 * 3 * 30 * 40).astype(np.float32).reshape(2, 3, 30, 40)
    mean, variance = exact_ops.channel_moments(y)
    assert mean == pytest.approx(y.mean(axis=(0, 2, 3)), abs=1)
    assert variance == pytest.approx(y.var(axis=(0, 2, 3)), rel=1e-3)


def test_means_of_multiples_of_the_grid_are_exact() -> None:
    x = bell(6, 600).astype(np.float32).reshape(20, 30) / 4096
    assert exact_ops.mean(x, (1,)).tolist() == [sum(int(v * 4096) for v in row) / 4096 / 30 for row in x]


PROBE_OPS_X = seeded_samples("x", (1, 6, 9, 8), 2, "test")


def _run(node: onnx.NodeProto, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray]) -> np.ndarray:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, 1, value.shape) for name, value in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]


@pytest.mark.parametrize(
    ("kind", "attributes", "constants"),
    [
        ("Relu", {}, {}),
        ("Clip", {}, {"low": np.float32(0), "high": np.float32(6)}),
        ("LeakyRelu", {"alpha": 0.125}, {}),
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]}, {}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, {}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, {}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}, {}),
        ("GlobalAveragePool", {}, {}),
        ("Flatten", {}, {}),
        ("Reshape", {}, {"shape": np.array([2, 2, 3, 9, 8])}),
        ("Transpose", {"perm": [0, 2, 1, 3]}, {}),
        (
            "Resize",
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            {"scales": np.float32([1, 1, 2, 3])},
        ),
    ],
)
def test_operators_do_what_onnx_runtime_does(kind: str, attributes: dict[str, Any], constants: dict[str, np.ndarray]) -> None:
    names = ["x", "", *constants] if kind == "Resize" else ["x", *constants]
    node = helper.make_node(kind, names, ["y"], **attributes)
    expected = _run(node, {"x": PROBE_OPS_X}, constants)
    assert exact_ops.apply(node, [PROBE_OPS_X], expected.shape) == pytest.approx(expected, abs=2**-12)


@pytest.mark.parametrize(("kind", "attributes"), [("Sum", {}), ("Concat", {"axis": 1})])
def test_joins_do_what_onnx_runtime_does(kind: str, attributes: dict[str, Any]) -> None:
    others = {name: seeded_samples(name, PROBE_OPS_X.shape, 2, "test") for name in ("x", "a", "b")}
    node = helper.make_node(kind, list(others), ["y"], **attributes)
    expected = _run(node, others, {})
    assert (exact_ops.apply(node, list(others.values()), expected.shape) == expected).all()
