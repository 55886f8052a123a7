"""Pixels as a network's input."""

import numpy as np

from toolchain.graph.pictures import picture_size, pixels_as_input, resized
from toolchain.graph.preparation import Preparation

PICTURE = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


def test_channels_are_told_by_their_number() -> None:
    assert picture_size((1, 3, 6, 8)) == picture_size((1, 6, 8, 3)) == (6, 8, 3)


def test_another_size_is_stretched_before_it_is_normalised() -> None:
    found = pixels_as_input(np.full((9, 5, 1), 7, np.float32), (1, 1, 4, 20), "float32", Preparation(mean=(3.0,), std=(2.0,)))
    assert found.shape == (1, 1, 4, 20)
    assert np.allclose(found, 2)


def test_resizing_by_whole_factors_takes_means() -> None:
    found = resized(PICTURE.astype(np.float32), 6, 8)
    assert np.array_equal(found, PICTURE)
    flat = np.full((9, 5, 1), 7, np.float32)
    assert np.allclose(resized(flat, 4, 20), 7)
    ramp = np.repeat(np.arange(64, dtype=np.float32)[None, :, None], 8, axis=0)
    assert np.allclose(resized(ramp, 8, 16)[:, 1:-1, 0], np.arange(64).reshape(16, 4).mean(1)[1:-1], atol=1e-3)
