"""Convolutions of whole numbers against sums written out; statistics against numpy's."""

import itertools

import numpy as np
import pytest

from toolchain.models import exact_ops
from toolchain.models.geometry import Taps
from toolchain.models.random_bits import bell


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
