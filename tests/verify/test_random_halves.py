"""Drawn halves have the numbers that a check needs."""

import numpy as np

from toolchain.verify.random_halves import CORNERS, random_bounds, random_halves


def test_corners_are_among_small_numbers() -> None:
    found = random_halves((4000,), np.random.default_rng(0), corner=True)
    assert found.dtype == np.float16
    assert set(CORNERS.view(np.int16)) <= set(found.view(np.int16))
    eighths = found.astype(np.float32) * 8
    assert np.count_nonzero(eighths == np.rint(eighths)) > 3600


def test_infinities_come_now_and_then_where_they_may() -> None:
    rng = np.random.default_rng(1)
    infinite = [np.isinf(random_halves((3,), rng, infinite=True)).any() for _ in range(500)]
    assert 0 < sum(infinite) < 50
    assert not any(np.isinf(random_halves((3,), rng)).any() for _ in range(500))


def test_bounds_of_all_activations() -> None:
    rng = np.random.default_rng(2)
    assert len({bounds.high for bounds in (random_bounds(rng) for _ in range(40))}) > 2
